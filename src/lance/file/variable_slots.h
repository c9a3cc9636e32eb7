// SlotBuilder of strings and binaries.
#pragma once

#include <arrow/buffer_builder.h>

#include "lance/file/slot_builder.h"

namespace sarissa::lance {

class VariableSlots final : public SlotBuilder {
 public:
  VariableSlots(std::shared_ptr<arrow::DataType> type, const ValueShape& shape)
      : type_(std::move(type)), large_(shape.large_offsets) {}

  Status AppendBlock(const ValueBlock& block, uint64_t first, uint64_t count,
                     Validity valid) override;
  Status AppendIndexed(const ValueBlock& indices, PageDictionary* dictionary, uint64_t first,
                       uint64_t count, Validity valid) override;
  Status AppendRepeated(const ValueBlock& block, uint64_t count) override;
  Status AppendEmpty(uint64_t count) override;
  Status AppendShared(std::shared_ptr<arrow::Buffer> value) override;
  Status AppendValue(Bytes value);
  uint64_t slots() const override { return slots_; }
  Result<std::shared_ptr<arrow::ArrayData>> Finish() override;

 private:
  Status CheckShape(const ValueBlock& block) const;
  // Room for `count` more offsets and `bytes` more bytes in the heap, copying a shared value there.
  Status Grow(uint64_t count, uint64_t bytes);
  void PushOffset();
  template <typename To, typename From>
  void CopyOffsets(const ValueBlock& block, uint64_t first, uint64_t count);

  std::shared_ptr<arrow::DataType> type_;
  bool large_;
  uint64_t slots_ = 0;
  uint64_t end_ = 0;  // of the last value
  arrow::BufferBuilder offsets_;
  arrow::BufferBuilder bytes_;
  // The only non-empty value so far, as the store gave it.
  std::shared_ptr<arrow::Buffer> shared_;
};

}  // namespace sarissa::lance
