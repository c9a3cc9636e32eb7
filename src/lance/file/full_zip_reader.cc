#include "lance/file/full_zip_reader.h"

#include "env/mapped_range.h"
#include "lance/file/encoding/load.h"

namespace sarissa::lance {
namespace {

constexpr char kValuePath[] = "full_zip/value_compression";
// Mapped pages are given back in steps of this size while their values are copied.
constexpr uint64_t kReleaseStep = 4 << 20;

template <typename... Args>
Status Corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kCorrupt,
                   "full_zip: " + fmt::format(format, std::forward<Args>(args)...));
}

uint64_t LoadWidth(const uint8_t* at, uint64_t width) {
  switch (width) {
    case 1:
      return *at;
    case 2:
      return Load<uint16_t>(at);
    case 4:
      return Load<uint32_t>(at);
    default:
      return Load<uint64_t>(at);
  }
}

}  // namespace

Result<std::unique_ptr<PageReader>> FullZipReader::Make(
    const PageSource& source, const pb::encodings::FullZipLayout& layout) {
  ARROW_ASSIGN_OR_RAISE(PageLevels levels, PageLevels::Make(layout.layers(), source.shape));
  auto reader = std::unique_ptr<FullZipReader>(new FullZipReader(source, std::move(levels)));
  ARROW_RETURN_NOT_OK(reader->SetWidths(layout));
  if (source.page.buffers.empty()) return Corrupt("the page has no buffer");
  if (reader->variable_ || reader->levels_.max_rep() > 0) {
    if (source.page.buffers.size() < 2) return Corrupt("the repetition index is missing");
    const uint64_t size = source.BufferSize(1);
    const uint64_t entries = source.page.rows + 1;
    reader->index_bytes_ = size / entries;
    const uint64_t width = reader->index_bytes_;
    if (size % entries != 0 || (width != 1 && width != 2 && width != 4 && width != 8)) {
      return Corrupt("a repetition index of {} bytes for {} rows", size, source.page.rows);
    }
  }
  return reader;
}

Status FullZipReader::SetWidths(const pb::encodings::FullZipLayout& layout) {
  bits_rep_ = layout.bits_rep();
  bits_def_ = layout.bits_def();
  if (bits_rep_ > 16 || bits_def_ > 16) {
    return Corrupt("levels of {} and {} bits", bits_rep_, bits_def_);
  }
  if ((levels_.max_rep() > 0) != (bits_rep_ > 0)) {
    return Corrupt("{} bits of repetition for {} lists", bits_rep_, levels_.max_rep());
  }
  const uint32_t bits = bits_rep_ + bits_def_;
  control_bytes_ = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
  variable_ = layout.details_case() == pb::encodings::FullZipLayout::kBitsPerOffset;
  if (!variable_) return SetFixed(layout);
  if (layout.bits_per_offset() != 32 && layout.bits_per_offset() != 64) {
    return Corrupt("lengths of {} bits", layout.bits_per_offset());
  }
  length_bytes_ = layout.bits_per_offset() / 8;
  ARROW_ASSIGN_OR_RAISE(items_, MakeItemDecoder(layout.value_compression(), kValuePath));
  return Status::OK();
}

Status FullZipReader::SetFixed(const pb::encodings::FullZipLayout& layout) {
  const Encoding* values = &layout.value_compression();
  std::string path = kValuePath;
  bool has_validity = false;
  if (values->has_fixed_size_list()) {
    path += "/fixed_size_list";
    items_per_value_ = values->fixed_size_list().items_per_value();
    has_validity = values->fixed_size_list().has_validity();
    if (items_per_value_ == 0 || items_per_value_ > INT32_MAX) {
      return Corrupt("{} items per value", items_per_value_);
    }
    values = &values->fixed_size_list().values();
  }
  // Items that are all null have no bytes.
  if (!values->has_constant()) {
    ARROW_ASSIGN_OR_RAISE(bits_per_item_, FlatBits(*values, path));
  }
  validity_bytes_ = has_validity ? (items_per_value_ + 7) / 8 : 0;
  ARROW_ASSIGN_OR_RAISE(const uint64_t bytes,
                        PackedBytes(1, items_per_value_, bits_per_item_, path));
  value_bytes_ = validity_bytes_ + bytes;
  if (layout.bits_per_value() != value_bytes_ * 8) {
    return Corrupt("values of {} bits, their encoding says {} bytes", layout.bits_per_value(),
                   value_bytes_);
  }
  if (value_bytes_ == 0 && control_bytes_ == 0) return Corrupt("entries without bytes");
  return Status::OK();
}

Result<FileRange> FullZipReader::Locate(const RowRange& rows) const {
  const uint64_t size = source_.BufferSize(0);
  if (index_bytes_ == 0) {
    const uint64_t width = control_bytes_ + value_bytes_;
    if (rows.end() > size / width) {
      return Corrupt("row {} of {} bytes each in a buffer of {}", rows.end(), width, size);
    }
    return FileRange{rows.first * width, rows.count * width};
  }
  const auto offset_of = [&](uint64_t row) -> Result<uint64_t> {
    ARROW_ASSIGN_OR_RAISE(auto entry, source_.Read(1, row * index_bytes_, index_bytes_));
    return LoadWidth(entry->data(), index_bytes_);
  };
  uint64_t begin = 0;
  uint64_t end = 0;
  if (rows.count == 1) {
    ARROW_ASSIGN_OR_RAISE(auto pair, source_.Read(1, rows.first * index_bytes_, 2 * index_bytes_));
    begin = LoadWidth(pair->data(), index_bytes_);
    end = LoadWidth(pair->data() + index_bytes_, index_bytes_);
  } else {
    ARROW_ASSIGN_OR_RAISE(begin, offset_of(rows.first));
    ARROW_ASSIGN_OR_RAISE(end, offset_of(rows.end()));
  }
  if (begin > end || end > size) {
    return Corrupt("rows {} to {} lie at {} to {} of {} bytes", rows.first, rows.end(), begin, end,
                   size);
  }
  return FileRange{begin, end - begin};
}

Status FullZipReader::Read(std::span<const RowRange> rows, LeafSink* sink) {
  for (const RowRange& range : rows) {
    const Status status = ReadRows(range, sink);
    if (!status.ok()) return Annotate(status, fmt::format("row {} of the page", range.first));
  }
  return Status::OK();
}

Status FullZipReader::ReadRows(const RowRange& rows, LeafSink* sink) {
  ARROW_ASSIGN_OR_RAISE(const FileRange where, Locate(rows));
  ARROW_ASSIGN_OR_RAISE(auto buffer, source_.Read(0, where.offset, where.size));
  const Bytes bytes = BytesOf(*buffer);
  std::vector<uint16_t> rep;
  std::vector<uint16_t> def;
  uint64_t at = 0;
  uint64_t entries = 0;
  uint64_t row_starts = 0;
  uint64_t released = 0;
  while (at < bytes.size()) {
    uint16_t entry_rep = 0;
    uint16_t entry_def = 0;
    ARROW_RETURN_NOT_OK(TakeControlWord(bytes, &at, &entry_rep, &entry_def));
    if (bits_rep_ > 0) rep.push_back(entry_rep);
    if (bits_def_ > 0) def.push_back(entry_def);
    ++entries;
    row_starts += entry_rep == levels_.max_rep();
    if (entry_def <= levels_.max_slot_def()) {
      if (!variable_) {
        ARROW_RETURN_NOT_OK(TakeFixed(bytes, &at, entry_def == 0, sink));
      } else if (entry_def == 0) {
        ARROW_RETURN_NOT_OK(TakeVariable(buffer, &at, sink));
      } else {
        ARROW_RETURN_NOT_OK(sink->slots->AppendEmpty(1));
      }
    }
    if (at - released >= kReleaseStep && rows.count > 1) {
      env::ReleaseMappedPages(*buffer, static_cast<int64_t>(released),
                              static_cast<int64_t>(at - released));
      released = at;
    }
  }
  if (row_starts != rows.count || (!rep.empty() && rep[0] != levels_.max_rep())) {
    return Corrupt("{} rows where the repetition index has {}", row_starts, rows.count);
  }
  sink->levels.Append(entries, rep, def, levels_);
  return Status::OK();
}

Status FullZipReader::TakeControlWord(Bytes bytes, uint64_t* at, uint16_t* rep,
                                      uint16_t* def) const {
  if (control_bytes_ == 0) return Status::OK();
  if (bytes.size() - *at < control_bytes_) return Corrupt("a control word is cut off");
  const uint64_t word = LoadWidth(bytes.data() + *at, control_bytes_);
  *at += control_bytes_;
  const uint64_t entry_def = word & ((uint64_t{1} << bits_def_) - 1);
  const uint64_t entry_rep = word >> bits_def_;
  if (entry_rep > levels_.max_rep() || entry_def > levels_.max_def()) {
    return Corrupt("levels {} and {} where {} and {} are the highest", entry_rep, entry_def,
                   levels_.max_rep(), levels_.max_def());
  }
  *rep = static_cast<uint16_t>(entry_rep);
  *def = static_cast<uint16_t>(entry_def);
  return Status::OK();
}

Status FullZipReader::TakeVariable(const std::shared_ptr<arrow::Buffer>& bytes, uint64_t* at,
                                   LeafSink* sink) {
  const Bytes all = BytesOf(*bytes);
  if (all.size() - *at < length_bytes_) return Corrupt("a length is cut off");
  const uint64_t length = LoadWidth(all.data() + *at, length_bytes_);
  *at += length_bytes_;
  if (length > all.size() - *at) {
    return Corrupt("a value of {} bytes where {} are left", length, all.size() - *at);
  }
  const uint64_t begin = *at;
  *at += length;
  if (length >= static_cast<uint64_t>(env::kMapThresholdBytes) && items_->verbatim()) {
    return sink->slots->AppendShared(
        arrow::SliceBuffer(bytes, static_cast<int64_t>(begin), static_cast<int64_t>(length)));
  }
  ARROW_ASSIGN_OR_RAISE(const Bytes value, items_->Decode(all.subspan(begin, length)));
  const uint64_t offsets[2] = {0, value.size()};
  const ValueBlock block{.count = 1,
                         .data = value,
                         .offsets = Bytes(reinterpret_cast<const uint8_t*>(offsets), 16),
                         .offset_bytes = 8};
  return sink->slots->AppendBlock(block, 0, 1, {});
}

Status FullZipReader::TakeFixed(Bytes bytes, uint64_t* at, bool valid, LeafSink* sink) const {
  if (bytes.size() - *at < value_bytes_) return Corrupt("a value is cut off");
  const Bytes value = bytes.subspan(*at, value_bytes_);
  *at += value_bytes_;
  const ValueBlock block{.count = 1,
                         .bits_per_item = bits_per_item_,
                         .items_per_value = items_per_value_,
                         .data = value.subspan(validity_bytes_),
                         .item_validity = value.first(validity_bytes_)};
  const uint8_t is_valid = valid ? 1 : 0;
  return sink->slots->AppendBlock(block, 0, 1, std::span<const uint8_t>(&is_valid, 1));
}

}  // namespace sarissa::lance
