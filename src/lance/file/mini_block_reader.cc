#include "lance/file/mini_block_reader.h"

#include <algorithm>

#include "lance/file/encoding/load.h"

namespace sarissa::lance {
namespace {

constexpr char kName[] = "mini_block";
// More values than any writer puts into one chunk; bounds what a damaged count can ask for.
constexpr uint64_t kMaxChunkValues = uint64_t{1} << 26;
// Chunks with less than this between them are read together, up to the limit.
constexpr uint64_t kReadAcrossBytes = 32 << 10;
constexpr uint64_t kMaxReadBytes = 16 << 20;

template <typename... Args>
Status Corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorKind::kCorrupt,
                   "mini_block: " + fmt::format(format, std::forward<Args>(args)...));
}

uint64_t PadTo8(uint64_t n) {
  return (n + 7) & ~uint64_t{7};
}

}  // namespace

Result<std::unique_ptr<PageReader>> MiniBlockReader::Make(
    const PageSource& source, const pb::encodings::MiniBlockLayout& layout) {
  ARROW_ASSIGN_OR_RAISE(PageLevels levels, PageLevels::Make(layout.layers(), source.shape));
  auto reader = std::unique_ptr<MiniBlockReader>(new MiniBlockReader(source, std::move(levels)));
  const std::string name = kName;
  if (layout.has_rep_compression()) {
    ARROW_ASSIGN_OR_RAISE(reader->rep_decoder_,
                          MakeBlockDecoder(layout.rep_compression(), name + "/rep_compression"));
  }
  if (layout.has_def_compression()) {
    ARROW_ASSIGN_OR_RAISE(reader->def_decoder_,
                          MakeBlockDecoder(layout.def_compression(), name + "/def_compression"));
  }
  ARROW_ASSIGN_OR_RAISE(reader->value_decoder_, MakeMiniBlockDecoder(layout.value_compression(),
                                                                     name + "/value_compression"));
  reader->num_buffers_ = layout.num_buffers();
  if (reader->num_buffers_ != reader->value_decoder_->num_buffers()) {
    return Corrupt("{} value buffers, the encoding has {}", reader->num_buffers_,
                   reader->value_decoder_->num_buffers());
  }
  const bool lists = reader->levels_.max_rep() > 0;
  if (lists != layout.has_rep_compression()) {
    return Corrupt("repetition levels {} lists", lists ? "are missing for" : "without");
  }
  ARROW_RETURN_NOT_OK(reader->ReadChunkWords(layout));
  if (layout.has_dictionary()) ARROW_RETURN_NOT_OK(reader->ReadDictionary(layout));
  if (lists) {
    if (layout.repetition_index_depth() != 1) {
      return Error(ErrorKind::kUnsupported, "mini_block: a repetition index of depth {}",
                   layout.repetition_index_depth());
    }
    ARROW_RETURN_NOT_OK(reader->ReadRepetitionIndex(layout.has_dictionary() ? 3 : 2));
  }
  const uint64_t rows = reader->chunks_.empty() ? 0 : reader->chunks_.back().end_row;
  if (rows != source.page.rows) {
    return Corrupt("the chunks hold {} rows, the page {}", rows, source.page.rows);
  }
  return reader;
}

Status MiniBlockReader::ReadChunkWords(const pb::encodings::MiniBlockLayout& layout) {
  large_chunks_ = layout.has_large_chunk();
  if (large_chunks_ != (source_.version >= kFileV22)) {
    return Corrupt("chunk words of {} bytes in a file of version {}", large_chunks_ ? 4 : 2,
                   source_.version.ToString());
  }
  ARROW_ASSIGN_OR_RAISE(auto words, source_.Read(0));
  const uint64_t width = large_chunks_ ? 4 : 2;
  const auto size = static_cast<uint64_t>(words->size());
  if (size % width != 0) return Corrupt("{} bytes of chunk words", size);
  if (source_.page.buffers.size() < 2) return Corrupt("the page has no chunks");
  chunks_.resize(size / width);
  uint64_t offset = 0;
  uint64_t rows = 0;
  uint64_t left = layout.num_items();
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const uint8_t* at = words->data() + i * width;
    const uint64_t word = large_chunks_ ? Load<uint32_t>(at) : Load<uint16_t>(at);
    Chunk& chunk = chunks_[i];
    chunk.offset = offset;
    chunk.bytes = ((word >> 4) + 1) * 8;
    chunk.values = i + 1 == chunks_.size() ? left : uint64_t{1} << (word & 15);
    if (chunk.values > left || chunk.values > kMaxChunkValues) {
      return Corrupt("chunk {} has {} values, {} are left", i, chunk.values, left);
    }
    left -= chunk.values;
    offset += chunk.bytes;
    // Without lists a value is a row; with lists the repetition index says more.
    chunk.first_row = rows;
    rows += chunk.values;
    chunk.end_row = rows;
  }
  if (left != 0) return Corrupt("{} values are in no chunk", left);
  if (offset > source_.BufferSize(1)) {
    return Corrupt("chunks of {} bytes in a buffer of {}", offset, source_.BufferSize(1));
  }
  return Status::OK();
}

Status MiniBlockReader::ReadRepetitionIndex(uint64_t buffer) {
  ARROW_ASSIGN_OR_RAISE(auto index, source_.Read(buffer));
  if (static_cast<uint64_t>(index->size()) != 16 * chunks_.size()) {
    return Corrupt("a repetition index of {} bytes for {} chunks", index->size(), chunks_.size());
  }
  uint64_t row = 0;
  bool continues = false;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const uint64_t ends = Load<uint64_t>(index->data() + 16 * i);
    const bool goes_on = Load<uint64_t>(index->data() + 16 * i + 8) != 0;
    if (ends > source_.page.rows - row) {
      return Corrupt("the repetition index has more than {} rows", source_.page.rows);
    }
    Chunk& chunk = chunks_[i];
    chunk.first_row = row;
    chunk.continues = continues;
    row += ends;
    chunk.end_row = row + (goes_on ? 1 : 0);
    continues = goes_on;
  }
  if (continues) return Corrupt("the last row does not end");
  return Status::OK();
}

Status MiniBlockReader::ReadDictionary(const pb::encodings::MiniBlockLayout& layout) {
  ARROW_ASSIGN_OR_RAISE(dictionary_decoder_,
                        MakeBlockDecoder(layout.dictionary(), std::string(kName) + "/dictionary"));
  ARROW_ASSIGN_OR_RAISE(dictionary_bytes_, source_.Read(2));
  const Bytes block = BytesOf(*dictionary_bytes_);
  const uint64_t count = layout.num_dictionary_items();
  if (count > uint64_t{1} << 32) return Corrupt("a dictionary of {} values", count);
  dictionary_.emplace();
  ValueBlock& values = dictionary_->values;
  ARROW_RETURN_NOT_OK(
      dictionary_decoder_->Decode(std::span<const Bytes>(&block, 1), count, &values));
  if (values.offset_bytes != 0) {
    ARROW_RETURN_NOT_OK(Annotate(values.CheckOffsets(0, count), "mini_block/dictionary"));
  }
  return Status::OK();
}

Status MiniBlockReader::DecodeChunk(const Chunk& chunk, Bytes bytes) {
  const uint64_t size_bytes = large_chunks_ ? 4 : 2;
  const uint64_t head = 2 + (rep_decoder_ != nullptr ? 2 : 0) + (def_decoder_ != nullptr ? 2 : 0) +
                        size_bytes * num_buffers_;
  if (head > bytes.size()) return Corrupt("a chunk of {} bytes", bytes.size());
  const uint8_t* at = bytes.data();
  const uint64_t num_levels = Load<uint16_t>(at);
  at += 2;
  uint64_t position = PadTo8(head);
  bool fits = true;
  const auto next = [&](uint64_t size) {
    if (position > bytes.size() || size > bytes.size() - position) {
      fits = false;
      return Bytes();
    }
    const Bytes buffer = bytes.subspan(position, size);
    position = PadTo8(position + size);
    return buffer;
  };
  Bytes rep;
  Bytes def;
  if (rep_decoder_ != nullptr) {
    rep = next(Load<uint16_t>(at));
    at += 2;
  }
  if (def_decoder_ != nullptr) {
    def = next(Load<uint16_t>(at));
    at += 2;
  }
  std::vector<Bytes> buffers(num_buffers_);
  for (Bytes& buffer : buffers) {
    buffer = next(large_chunks_ ? Load<uint32_t>(at) : Load<uint16_t>(at));
    at += size_bytes;
  }
  if (!fits) return Corrupt("the buffers of a chunk overrun its {} bytes", bytes.size());
  ARROW_RETURN_NOT_OK(DecodeChunkLevels(chunk, num_levels, rep, def));
  ARROW_RETURN_NOT_OK(value_decoder_->Decode(buffers, chunk.values, &values_));
  if (source_.shape.max_rep > 0) ARROW_RETURN_NOT_OK(FindRows(chunk));
  validity_.clear();
  // Nulls of a dictionary page may have no entry in the dictionary, and need none.
  if (!def_.empty() && (dictionary_.has_value() || source_.shape.dictionary)) {
    SlotValidity(def_, levels_.max_slot_def(), &validity_);
  }
  return Status::OK();
}

Status MiniBlockReader::DecodeChunkLevels(const Chunk& chunk, uint64_t count, Bytes rep,
                                          Bytes def) {
  rep_.clear();
  def_.clear();
  entries_ = rep_decoder_ != nullptr || def_decoder_ != nullptr ? count : chunk.values;
  if (rep_decoder_ != nullptr) {
    ARROW_RETURN_NOT_OK(Annotate(
        DecodeLevels(rep_decoder_.get(), rep, entries_, levels_.max_rep(), &rep_), "repetition"));
  }
  if (def_decoder_ != nullptr) {
    ARROW_RETURN_NOT_OK(Annotate(
        DecodeLevels(def_decoder_.get(), def, entries_, levels_.max_def(), &def_), "definition"));
    if (ZeroRun(def_, 0) == def_.size()) def_.clear();  // as if the page had none
  }
  const uint64_t slots = def_.empty() ? entries_ : CountSlots(def_, levels_.max_slot_def());
  if (slots != chunk.values) {
    return Corrupt("levels of {} values in a chunk of {}", slots, chunk.values);
  }
  return Status::OK();
}

Status MiniBlockReader::FindRows(const Chunk& chunk) {
  row_starts_.clear();
  const uint16_t start = levels_.max_rep();
  for (size_t i = ZeroRun(rep_, 0); i < rep_.size(); i += 1 + ZeroRun(rep_, i + 1)) {
    if (rep_[i] == start) row_starts_.push_back(static_cast<uint32_t>(i));
  }
  const bool continues = !rep_.empty() && rep_[0] != start;
  const uint64_t rows = row_starts_.size() + (continues ? 1 : 0);
  if (continues != chunk.continues || rows != chunk.end_row - chunk.first_row) {
    return Corrupt("a chunk has {} rows, the repetition index {}", rows,
                   chunk.end_row - chunk.first_row);
  }
  return Status::OK();
}

MiniBlockReader::Selection MiniBlockReader::Select(const Chunk& chunk, const RowRange& rows) const {
  const uint64_t first = std::max(rows.first, chunk.first_row);
  const uint64_t end = std::min(rows.end(), chunk.end_row);
  if (source_.shape.max_rep == 0) {
    return {first - chunk.first_row, end - first, first - chunk.first_row, end - first};
  }
  const auto entry_of = [&](uint64_t row) -> uint64_t {
    uint64_t start = row - chunk.first_row;
    if (chunk.continues) {
      if (start == 0) return 0;
      --start;
    }
    return start < row_starts_.size() ? row_starts_[start] : entries_;
  };
  Selection selection;
  selection.first_entry = entry_of(first);
  selection.entries = entry_of(end) - selection.first_entry;
  if (def_.empty()) {
    selection.first_slot = selection.first_entry;
    selection.slots = selection.entries;
    return selection;
  }
  const Levels def = def_;
  const uint16_t most = levels_.max_slot_def();
  selection.first_slot = CountSlots(def.first(selection.first_entry), most);
  selection.slots = selection.entries == entries_
                        ? chunk.values
                        : CountSlots(def.subspan(selection.first_entry, selection.entries), most);
  return selection;
}

Status MiniBlockReader::Append(const Selection& selection, LeafSink* sink) {
  const auto part = [&](const std::vector<uint16_t>& levels) {
    return levels.empty() ? Levels()
                          : Levels(levels).subspan(selection.first_entry, selection.entries);
  };
  sink->levels.Append(selection.entries, part(rep_), part(def_), levels_);
  if (dictionary_.has_value()) {
    return sink->slots->AppendIndexed(values_, &*dictionary_, selection.first_slot, selection.slots,
                                      validity_);
  }
  return sink->slots->AppendBlock(values_, selection.first_slot, selection.slots, validity_);
}

Status MiniBlockReader::Read(std::span<const RowRange> rows, LeafSink* sink) {
  // Chunks that hold a wanted row, in order.
  std::vector<size_t> wanted;
  size_t range = 0;
  for (size_t i = 0; i < chunks_.size() && range < rows.size(); ++i) {
    while (range < rows.size() && rows[range].end() <= chunks_[i].first_row) ++range;
    if (range < rows.size() && rows[range].first < chunks_[i].end_row) wanted.push_back(i);
  }
  range = 0;
  for (size_t group = 0; group < wanted.size();) {
    const uint64_t begin = chunks_[wanted[group]].offset;
    uint64_t end = begin + chunks_[wanted[group]].bytes;
    size_t stop = group + 1;
    for (; stop < wanted.size(); ++stop) {
      const Chunk& chunk = chunks_[wanted[stop]];
      if (chunk.offset - end > kReadAcrossBytes ||
          chunk.offset + chunk.bytes - begin > kMaxReadBytes) {
        break;
      }
      end = chunk.offset + chunk.bytes;
    }
    ARROW_ASSIGN_OR_RAISE(auto bytes, source_.Read(1, begin, end - begin));
    for (; group < stop; ++group) {
      const Chunk& chunk = chunks_[wanted[group]];
      Status status =
          DecodeChunk(chunk, BytesOf(*bytes).subspan(chunk.offset - begin, chunk.bytes));
      while (range < rows.size() && rows[range].end() <= chunk.first_row) ++range;
      for (size_t i = range; status.ok() && i < rows.size() && rows[i].first < chunk.end_row; ++i) {
        status = Append(Select(chunk, rows[i]), sink);
      }
      if (!status.ok()) return Annotate(status, fmt::format("chunk {}", wanted[group]));
    }
  }
  return Status::OK();
}

}  // namespace sarissa::lance
