#include "lance/file/constant_reader.h"

#include "lance/file/encoding/load.h"

namespace sarissa::lance {
namespace {

template <typename... Args>
Status Corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kCorrupt,
                   "constant: " + fmt::format(format, std::forward<Args>(args)...));
}

// More levels than a page of any writer has.
constexpr uint64_t kMaxLevels = uint64_t{1} << 28;

}  // namespace

Result<std::unique_ptr<PageReader>> ConstantReader::Make(
    const PageSource& source, const pb::encodings::ConstantLayout& layout) {
  ARROW_ASSIGN_OR_RAISE(PageLevels levels, PageLevels::Make(layout.layers(), source.shape));
  auto reader = std::unique_ptr<ConstantReader>(new ConstantReader(source, std::move(levels)));
  const size_t buffers = source.page.buffers.size();
  if (buffers > 3) return Corrupt("the page has {} buffers", buffers);
  const bool value_buffer = buffers % 2 == 1;
  if (layout.has_inline_value()) {
    if (value_buffer) return Corrupt("a value in the layout and one in a buffer");
    ARROW_RETURN_NOT_OK(reader->SetInlineValue(layout.inline_value()));
  } else if (value_buffer) {
    ARROW_RETURN_NOT_OK(reader->ReadValueBuffer());
  }
  if (buffers >= 2) ARROW_RETURN_NOT_OK(reader->ReadLevels(layout, value_buffer ? 1 : 0));
  return reader;
}

Status ConstantReader::SetInlineValue(const std::string& value) {
  value_bytes_ = value;
  const auto* data = reinterpret_cast<const uint8_t*>(value_bytes_.data());
  const ValueShape& shape = source_.shape.values;
  if (shape.kind == ValueShape::Kind::kVariable) {
    offsets_[1] = value_bytes_.size();
    value_ = ValueBlock{.count = 1,
                        .data = Bytes(data, value_bytes_.size()),
                        .offsets = Bytes(reinterpret_cast<const uint8_t*>(offsets_), 16),
                        .offset_bytes = 8};
    return Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(
      const uint64_t bytes,
      PackedBytes(1, shape.items_per_value, shape.bits_per_item, "constant/inline_value"));
  if (value_bytes_.size() != bytes) {
    return Corrupt("a value of {} bytes instead of {}", value_bytes_.size(), bytes);
  }
  value_ = ValueBlock{.count = 1,
                      .bits_per_item = shape.bits_per_item,
                      .items_per_value = shape.items_per_value,
                      .data = Bytes(data, bytes)};
  return Status::OK();
}

Status ConstantReader::ReadValueBuffer() {
  ARROW_ASSIGN_OR_RAISE(value_buffer_, source_.Read(0));
  const Bytes all = BytesOf(*value_buffer_);
  if (all.size() < 4) return Corrupt("a value buffer of {} bytes", all.size());
  const uint64_t count = Load<uint32_t>(all.data());
  if (count == 0 || count > 2 || all.size() < 4 + 4 * count) {
    return Corrupt("a value of {} Arrow buffers", count);
  }
  Bytes buffers[2];
  uint64_t at = 4 + 4 * count;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t size = Load<uint32_t>(all.data() + 4 + 4 * i);
    if (size > all.size() - at) {
      return Corrupt("an Arrow buffer of {} bytes where {} are left", size, all.size() - at);
    }
    buffers[i] = all.subspan(at, size);
    at += size;
  }
  const ValueShape& shape = source_.shape.values;
  if (shape.kind == ValueShape::Kind::kVariable) {
    const uint32_t width = shape.large_offsets ? 8 : 4;
    if (count != 2 || buffers[0].size() < 2 * uint64_t{width}) {
      return Corrupt("a string of {} Arrow buffers", count);
    }
    value_ =
        ValueBlock{.count = 1, .data = buffers[1], .offsets = buffers[0], .offset_bytes = width};
    return Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(const uint64_t bytes, PackedBytes(1, shape.items_per_value,
                                                          shape.bits_per_item, "constant/value"));
  if (count != 1 || bytes > buffers[0].size()) {
    return Corrupt("a value of {} bytes where the field has {}", buffers[0].size(), bytes);
  }
  value_ = ValueBlock{.count = 1,
                      .bits_per_item = shape.bits_per_item,
                      .items_per_value = shape.items_per_value,
                      .data = buffers[0].first(bytes)};
  return Status::OK();
}

Status ConstantReader::ReadLevels(const pb::encodings::ConstantLayout& layout,
                                  uint64_t rep_buffer) {
  const auto read = [&](const char* name, uint64_t buffer, bool compressed,
                        const Encoding& encoding, uint64_t count, uint16_t max,
                        std::vector<uint16_t>* out) -> Status {
    ARROW_ASSIGN_OR_RAISE(auto bytes, source_.Read(buffer));
    if (bytes->size() == 0) return Status::OK();
    const std::string path = fmt::format("constant/{}", name);
    if (!compressed) {
      return Annotate(
          CopyLevels(BytesOf(*bytes), static_cast<uint64_t>(bytes->size()) / 2, max, out), path);
    }
    if (count > kMaxLevels) return Corrupt("{} levels", count);
    ARROW_ASSIGN_OR_RAISE(auto decoder, MakeBlockDecoder(encoding, path));
    return Annotate(DecodeLevels(decoder.get(), BytesOf(*bytes), count, max, out), path);
  };
  ARROW_RETURN_NOT_OK(read("rep_compression", rep_buffer, layout.has_rep_compression(),
                           layout.rep_compression(), layout.num_rep_values(), levels_.max_rep(),
                           &rep_));
  return read("def_compression", rep_buffer + 1, layout.has_def_compression(),
              layout.def_compression(), layout.num_def_values(), levels_.max_def(), &def_);
}

Status ConstantReader::AppendSlots(Levels def, uint64_t slots, LeafSink* sink) {
  if (!value_.has_value()) return sink->slots->AppendEmpty(slots);
  if (def.empty() || source_.shape.values.kind == ValueShape::Kind::kFixed) {
    return sink->slots->AppendRepeated(*value_, slots);
  }
  // Nulls get no copy of the value, which may be long.
  uint64_t run = 0;
  bool run_valid = true;
  const auto flush = [&]() -> Status {
    if (run == 0) return Status::OK();
    const uint64_t length = std::exchange(run, 0);
    return run_valid ? sink->slots->AppendRepeated(*value_, length)
                     : sink->slots->AppendEmpty(length);
  };
  for (const uint16_t level : def) {
    if (level > levels_.max_slot_def()) continue;
    if ((level == 0) != run_valid) {
      ARROW_RETURN_NOT_OK(flush());
      run_valid = level == 0;
    }
    ++run;
  }
  return flush();
}

Status ConstantReader::Read(std::span<const RowRange> rows, LeafSink* sink) {
  const bool lists = levels_.max_rep() > 0;
  std::vector<uint64_t> starts;
  if (lists) {
    if (rep_.empty() || rep_[0] != levels_.max_rep()) return Corrupt("no row starts the page");
    for (size_t i = 0; i < rep_.size(); ++i) {
      if (rep_[i] == levels_.max_rep()) starts.push_back(i);
    }
  }
  const uint64_t known = lists ? starts.size() : def_.empty() ? source_.page.rows : def_.size();
  if (known != source_.page.rows || (lists && !def_.empty() && def_.size() != rep_.size())) {
    return Corrupt("levels of {} rows in a page of {}", known, source_.page.rows);
  }
  starts.push_back(rep_.size());
  // Without a value and without definitions everything is null, at the innermost level.
  const bool all_null =
      !value_.has_value() && def_.empty() && source_.shape.values.kind != ValueShape::Kind::kNull;
  if (all_null && (lists || levels_.max_def() == 0)) return Corrupt("neither value nor levels");
  for (const RowRange& range : rows) {
    const uint64_t first = lists ? starts[range.first] : range.first;
    const uint64_t entries = (lists ? starts[range.end()] : range.end()) - first;
    if (entries > kMaxExpandedBytes / 4) {
      return Error(ErrorKind::kInvalid, "{} rows are too many for one read", range.count);
    }
    Levels def = def_.empty() ? Levels() : Levels(def_).subspan(first, entries);
    const Levels rep = rep_.empty() ? Levels() : Levels(rep_).subspan(first, entries);
    const std::vector<uint16_t> nulls(all_null ? entries : 0, 1);
    if (all_null) def = nulls;
    sink->levels.Append(entries, rep, def, levels_);
    const uint64_t slots = def.empty() ? entries : CountSlots(def, levels_.max_slot_def());
    ARROW_RETURN_NOT_OK(AppendSlots(def, slots, sink));
  }
  return Status::OK();
}

}  // namespace sarissa::lance
