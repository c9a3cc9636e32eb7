// SlotBuilder of fixed-width leaves: numbers, booleans, times, decimals, fixed binaries, and
// fixed-size lists of these.
#pragma once

#include <arrow/buffer_builder.h>

#include "lance/file/slot_builder.h"

namespace sarissa::lance {

class FixedSlots final : public SlotBuilder {
 public:
  FixedSlots(std::shared_ptr<arrow::DataType> type, const ValueShape& shape,
             uint64_t expected_slots)
      : type_(std::move(type)), shape_(shape), expected_slots_(expected_slots) {}

  Status AppendBlock(const ValueBlock& block, uint64_t first, uint64_t count,
                     Validity valid) override;
  Status AppendIndexed(const ValueBlock& indices, PageDictionary* dictionary, uint64_t first,
                       uint64_t count, Validity valid) override;
  Status AppendRepeated(const ValueBlock& block, uint64_t count) override;
  Status AppendEmpty(uint64_t count) override;
  Status AppendShared(std::shared_ptr<arrow::Buffer> value) override;
  uint64_t slots() const override { return slots_; }
  Result<std::shared_ptr<arrow::ArrayData>> Finish() override;

 private:
  Status CheckShape(const ValueBlock& block) const;
  // Room for `count` more slots. What the file has no bytes for is limited.
  Status Grow(uint64_t count, bool expands);
  Status AppendItemValidity(Bytes bits, uint64_t first_item, uint64_t items);

  std::shared_ptr<arrow::DataType> type_;
  ValueShape shape_;
  uint64_t expected_slots_;
  uint64_t slots_ = 0;
  uint64_t expanded_bytes_ = 0;
  arrow::BufferBuilder bytes_;
  // Bits of the items; grown only once some item is null.
  bool has_item_validity_ = false;
  arrow::BufferBuilder item_validity_;
};

}  // namespace sarissa::lance
