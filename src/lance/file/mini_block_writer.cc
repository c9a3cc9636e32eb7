// Writes mini-block pages: chunk words, chunks, the dictionary if there is one, the repetition
// index if there are lists.
#include <cstring>

#include "lance/file/mini_block_shape.h"
#include "lance/file/page_layouts.h"

namespace sarissa::lance {
namespace {

constexpr uint64_t kLevelBits = 16;
constexpr uint8_t kPadByte = 0xfe;

// Fills one chunk, front to back.
class ChunkBuffer {
 public:
  void Start(int64_t size) {
    bytes_.resize(static_cast<size_t>(size));
    at_ = 0;
  }
  void PutSize(int64_t value, int width) {
    std::memcpy(bytes_.data() + at_, &value, static_cast<size_t>(width));
    at_ += static_cast<size_t>(width);
  }
  uint8_t* Reserve(int64_t size) {
    uint8_t* start = bytes_.data() + at_;
    at_ += static_cast<size_t>(size);
    return start;
  }
  void Pad() {
    while (at_ % 8 != 0) bytes_[at_++] = kPadByte;
  }
  void PutLevels(const std::vector<uint16_t>& levels, const MiniBlockChunk& chunk) {
    const int64_t size = chunk.num_levels * 2;
    std::memcpy(Reserve(size), levels.data() + chunk.first_level, static_cast<size_t>(size));
    Pad();
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
};

void FillChunk(const MiniBlockShape& shape, const MiniBlockChunk& chunk, const PageLevels& levels,
               const PageValues& values, ChunkBuffer* out) {
  out->Start(chunk.bytes);
  const bool has_levels = shape.has_rep() || shape.has_def();
  out->PutSize(has_levels ? chunk.num_levels : 0, 2);
  if (shape.has_rep()) out->PutSize(chunk.num_levels * 2, 2);
  if (shape.has_def()) out->PutSize(chunk.num_levels * 2, 2);
  for (int buffer = 0; buffer < values.num_buffers(); ++buffer) {
    out->PutSize(values.ChunkBufferSize(buffer, chunk.first_value, chunk.num_values),
                 shape.size_bytes());
  }
  out->Pad();
  if (shape.has_rep()) out->PutLevels(levels.rep, chunk);
  if (shape.has_def()) out->PutLevels(levels.def, chunk);
  for (int buffer = 0; buffer < values.num_buffers(); ++buffer) {
    const int64_t size = values.ChunkBufferSize(buffer, chunk.first_value, chunk.num_values);
    values.FillChunkBuffer(buffer, chunk.first_value, chunk.num_values, out->Reserve(size));
    out->Pad();
  }
}

Result<BufferPlace> WriteWords(const MiniBlockShape& shape,
                               const std::vector<MiniBlockChunk>& chunks, ContainerWriter* out) {
  ARROW_RETURN_NOT_OK(out->BeginBuffer());
  for (const MiniBlockChunk& chunk : chunks) {
    const uint64_t word =
        static_cast<uint64_t>(chunk.bytes / 8 - 1) << 4 | static_cast<uint64_t>(chunk.log2_values);
    ARROW_RETURN_NOT_OK(out->Append(&word, static_cast<size_t>(shape.word_bytes())));
  }
  return out->EndBuffer();
}

Result<BufferPlace> WriteChunks(const MiniBlockShape& shape,
                                const std::vector<MiniBlockChunk>& chunks, const PageLevels& levels,
                                const PageValues& values, ContainerWriter* out) {
  ARROW_RETURN_NOT_OK(out->BeginBuffer());
  ChunkBuffer buffer;
  for (const MiniBlockChunk& chunk : chunks) {
    FillChunk(shape, chunk, levels, values, &buffer);
    ARROW_RETURN_NOT_OK(out->Append(buffer.bytes().data(), buffer.bytes().size()));
  }
  return out->EndBuffer();
}

// Per chunk: rows that end in it, and items after the last end. A row ends where the next one
// starts; when that is at the start of the next chunk, the row still counts for the chunk that
// holds its last item.
std::vector<uint64_t> RepetitionIndex(const ColumnPath& path,
                                      const std::vector<MiniBlockChunk>& chunks,
                                      const PageLevels& levels) {
  std::vector<uint64_t> index;
  index.reserve(chunks.size() * 2);
  for (size_t i = 0; i < chunks.size(); ++i) {
    const uint16_t* rep = levels.rep.data() + chunks[i].first_level;
    const int64_t count = chunks[i].num_levels;
    const bool is_last = i + 1 == chunks.size();
    uint64_t ends = is_last ? 1 : 0;
    int64_t last_start = 0;
    for (int64_t level = 1; level < count; ++level) {
      if (rep[level] != path.max_rep) continue;
      ++ends;
      last_start = level;
    }
    if (i > 0 && rep[0] == path.max_rep && index.back() != 0) {
      ++index[index.size() - 2];
      index.back() = 0;
    }
    index.push_back(ends);
    index.push_back(is_last ? 0 : static_cast<uint64_t>(count - last_start));
  }
  return index;
}

}  // namespace

Result<EncodedPage> WriteMiniBlockPage(const ColumnPath& path, const PageLevels& levels,
                                       const PageValues& values,
                                       const std::vector<MiniBlockChunk>& chunks,
                                       ContainerWriter* out) {
  const MiniBlockShape shape(path, values, out->version());
  EncodedPage page;
  pb::encodings::MiniBlockLayout* layout = page.layout.mutable_mini_block();
  ARROW_ASSIGN_OR_RAISE(BufferPlace words, WriteWords(shape, chunks, out));
  ARROW_ASSIGN_OR_RAISE(BufferPlace data, WriteChunks(shape, chunks, levels, values, out));
  page.buffers = {words, data};
  if (shape.has_rep())
    layout->mutable_rep_compression()->mutable_flat()->set_bits_per_value(kLevelBits);
  if (shape.has_def())
    layout->mutable_def_compression()->mutable_flat()->set_bits_per_value(kLevelBits);
  values.DescribeMiniBlock(layout->mutable_value_compression());
  if (auto dictionary = values.dictionary()) {
    ARROW_ASSIGN_OR_RAISE(BufferPlace place,
                          out->WriteBuffer(dictionary->bytes.data(), dictionary->bytes.size()));
    page.buffers.push_back(place);
    *layout->mutable_dictionary() = std::move(dictionary->encoding);
    layout->set_num_dictionary_items(dictionary->num_items);
  }
  for (auto layer : path.declared) layout->add_layers(layer);
  layout->set_num_buffers(static_cast<uint64_t>(values.num_buffers()));
  if (shape.has_rep()) {
    const auto index = RepetitionIndex(path, chunks, levels);
    ARROW_ASSIGN_OR_RAISE(BufferPlace place,
                          out->WriteBuffer(index.data(), index.size() * sizeof(uint64_t)));
    page.buffers.push_back(place);
    layout->set_repetition_index_depth(1);
  }
  layout->set_num_items(static_cast<uint64_t>(levels.num_slots));
  layout->set_has_large_chunk(shape.has_large_chunks());
  return page;
}

}  // namespace sarissa::lance
