// Collects the value slots of one leaf over pages and chunks, in the memory layout of its Arrow
// type, without validity.
//
// Owned by one read; one thread. kCorrupt for values that cannot be of the leaf's type; kInvalid
// when a read asks for more than one Arrow array can hold. Slots of nulls hold anything.
#pragma once

#include <arrow/array/data.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lance/file/encoding/decoder.h"
#include "lance/file/leaf_shape.h"

namespace sarissa::lance {

// The dictionary of a page.
struct PageDictionary {
  ValueBlock values;
  // For dictionary-typed leaves: index in the array's dictionary of each value met so far, -1 for
  // the others.
  std::vector<int64_t> unified;
};

class SlotBuilder {
 public:
  // One byte per value of the block, 1 where it is valid; empty when all are.
  using Validity = std::span<const uint8_t>;

  virtual ~SlotBuilder() = default;
  // `expected_slots` is a hint.
  static std::unique_ptr<SlotBuilder> Make(const LeafShape& shape, uint64_t expected_slots);

  // Values [first, first + count) of the block.
  virtual Status AppendBlock(const ValueBlock& block, uint64_t first, uint64_t count,
                             Validity valid) = 0;
  // The same of indices (unsigned, 8 to 64 bits) into `dictionary`.
  virtual Status AppendIndexed(const ValueBlock& indices, PageDictionary* dictionary,
                               uint64_t first, uint64_t count, Validity valid) = 0;
  // The only value of `block`, `count` times.
  virtual Status AppendRepeated(const ValueBlock& block, uint64_t count) = 0;
  // Slots of nulls.
  virtual Status AppendEmpty(uint64_t count) = 0;
  // One variable-width value. Large ones are shared instead of copied while they are the only ones.
  virtual Status AppendShared(std::shared_ptr<arrow::Buffer> value) = 0;

  virtual uint64_t slots() const = 0;
  // Buffer 0 (validity) is left for the caller.
  virtual Result<std::shared_ptr<arrow::ArrayData>> Finish() = 0;
};

// Values that take no room in the file (constants, null lists) may become this much memory in one
// read.
inline constexpr uint64_t kMaxExpandedBytes = uint64_t{1} << 30;

}  // namespace sarissa::lance
