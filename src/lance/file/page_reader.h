// Reads rows of one page of one column; one implementation per page layout.
//
// Made for one read, used by one thread. Errors name the node ("mini_block/value_compression/...");
// the caller puts column and page before them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lance/file/column_pages.h"
#include "lance/file/file_version.h"
#include "lance/file/leaf_shape.h"
#include "lance/file/level_buffer.h"
#include "lance/file/slot_builder.h"
#include "object_store/object_store.h"

namespace sarissa::lance {

// Rows [first, first + count).
struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
  uint64_t end() const { return first + count; }
};

// What is collected of one leaf over its pages.
struct LeafSink {
  LevelBuffer levels;
  std::unique_ptr<SlotBuilder> slots;
};

// What a page reader works on; all of it outlives the reader.
struct PageSource {
  const object_store::ObjectReader& object;
  FileVersion version;
  const PageInfo& page;
  const LeafShape& shape;

  // Buffer `index` of the page, or a part of it; the part is checked.
  Result<std::shared_ptr<arrow::Buffer>> Read(uint64_t index) const;
  Result<std::shared_ptr<arrow::Buffer>> Read(uint64_t index, uint64_t offset,
                                              uint64_t length) const;
  uint64_t BufferSize(uint64_t index) const { return page.buffers[index].size; }
};

class PageReader {
 public:
  virtual ~PageReader() = default;
  // `rows` are rows of the page, ascending and disjoint.
  virtual Status Read(std::span<const RowRange> rows, LeafSink* sink) = 0;

  static Result<std::unique_ptr<PageReader>> Make(const PageSource& source);
};

// View of a whole buffer.
inline Bytes BytesOf(const arrow::Buffer& buffer) {
  return Bytes(buffer.data(), static_cast<size_t>(buffer.size()));
}

// Decodes `count` levels of at most `max` from a block.
Status DecodeLevels(ValueDecoder* decoder, Bytes block, uint64_t count, uint16_t max,
                    std::vector<uint16_t>* out);
// The same of plain 16-bit levels.
Status CopyLevels(Bytes plain, uint64_t count, uint16_t max, std::vector<uint16_t>* out);

}  // namespace sarissa::lance
