// Repetition and definition levels of one leaf column, from Arrow arrays.
//
// Owned by a column writer, used by one thread. The result lives until the next Build.
#pragma once

#include <arrow/array/data.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "lance/file/column_path.h"

namespace sarissa::lance {

// Slots [start, start + length) of an array, not counting the array's own offset.
struct SlotRange {
  int64_t start = 0;
  int64_t length = 0;
};

struct LevelBlock {
  std::vector<uint16_t> rep;  // empty when the path has no list
  std::vector<uint16_t> def;  // empty when nothing on the path can be null
  int64_t num_levels = 0;
  std::vector<SlotRange> slots;  // of the leaf array, in order: one per visible item
  int64_t num_slots = 0;
  int64_t num_null_slots = 0;
};

class RepDefBuilder {
 public:
  // `path` outlives the builder.
  explicit RepDefBuilder(const ColumnPath& path) : path_(path) {}

  // Levels of rows [first, first + count); nodes[i] is the array of path.layers[i].
  // kInvalid names the field that holds a null and must not.
  Result<const LevelBlock*> Build(std::span<const arrow::ArrayData* const> nodes, int64_t first,
                                  int64_t count);
  // One byte per slot of the last block: 1 where the value is valid.
  const std::vector<uint8_t>& SlotValidity();

 private:
  Status ApplyItem(const PathLayer& layer, const arrow::ArrayData& data);
  Status CheckNoNulls(const PathLayer& layer, const uint8_t* validity, int64_t offset) const;
  template <typename Offset>
  Status ApplyList(const PathLayer& layer, const arrow::ArrayData& data);

  const ColumnPath& path_;
  LevelBlock block_;
  LevelBlock next_;  // scratch of ApplyList
  std::vector<uint8_t> slot_validity_;
};

}  // namespace sarissa::lance
