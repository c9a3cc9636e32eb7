// Pages of small values: chunks of up to some thousand values, each decoded as a whole.
//
// Buffers: chunk words, chunks, the dictionary if there is one, the repetition index if there are
// lists. A chunk word is
// ((bytes / 8) - 1) << 4 | log2(values), u16 in 2.1 and u32 in 2.2; the last chunk holds the rest
// of the values. The repetition index has two u64 per chunk: rows that end in the chunk, and
// entries after the last finished row. Only chunks that hold wanted rows are read and decoded.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lance/file/page_reader.h"

namespace sarissa::lance {

class MiniBlockReader final : public PageReader {
 public:
  static Result<std::unique_ptr<PageReader>> Make(const PageSource& source,
                                                  const pb::encodings::MiniBlockLayout& layout);
  Status Read(std::span<const RowRange> rows, LeafSink* sink) override;

 private:
  struct Chunk {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t values = 0;
    // Rows that have entries in the chunk; the first may have begun before it, the last may go on
    // behind it.
    uint64_t first_row = 0;
    uint64_t end_row = 0;
    bool continues = false;  // the first row began before the chunk
  };
  // A part of a decoded chunk.
  struct Selection {
    uint64_t first_entry = 0;
    uint64_t entries = 0;
    uint64_t first_slot = 0;
    uint64_t slots = 0;
  };

  explicit MiniBlockReader(const PageSource& source, PageLevels levels)
      : source_(source), levels_(std::move(levels)) {}

  Status ReadChunkWords(const pb::encodings::MiniBlockLayout& layout);
  Status ReadRepetitionIndex(uint64_t buffer);
  Status ReadDictionary(const pb::encodings::MiniBlockLayout& layout);
  Status DecodeChunk(const Chunk& chunk, Bytes bytes);
  Status DecodeChunkLevels(const Chunk& chunk, uint64_t count, Bytes rep, Bytes def);
  // Finds the row starts of a decoded chunk and checks them against the repetition index.
  Status FindRows(const Chunk& chunk);
  Selection Select(const Chunk& chunk, const RowRange& rows) const;
  Status Append(const Selection& selection, LeafSink* sink);

  PageSource source_;
  PageLevels levels_;
  bool large_chunks_ = false;
  uint64_t num_buffers_ = 0;
  std::unique_ptr<ValueDecoder> rep_decoder_;
  std::unique_ptr<ValueDecoder> def_decoder_;
  std::unique_ptr<ValueDecoder> value_decoder_;
  std::shared_ptr<arrow::Buffer> dictionary_bytes_;
  std::unique_ptr<ValueDecoder> dictionary_decoder_;
  std::optional<PageDictionary> dictionary_;
  std::vector<Chunk> chunks_;

  // The decoded chunk.
  uint64_t entries_ = 0;
  std::vector<uint16_t> rep_;
  std::vector<uint16_t> def_;
  std::vector<uint32_t> row_starts_;  // entries at which rows begin
  std::vector<uint8_t> validity_;
  ValueBlock values_;
};

}  // namespace sarissa::lance
