// SlotBuilder of dictionary-typed leaves: one dictionary over all pages, whether the pages were
// dictionary-coded or not. More distinct values than the index type has room for are kUnsupported.
#pragma once

#include <arrow/buffer_builder.h>

#include <string>
#include <unordered_map>

#include "lance/file/slot_builder.h"

namespace sarissa::lance {

class DictionarySlots final : public SlotBuilder {
 public:
  explicit DictionarySlots(const LeafShape& shape);

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
  // Index of value i of `block`, which is put into the dictionary if it is new.
  Result<int64_t> IndexOf(const ValueBlock& block, uint64_t i);
  Status PushIndices(int64_t index, uint64_t count);

  std::shared_ptr<arrow::DataType> type_;
  uint64_t index_bytes_;
  uint64_t max_values_;
  uint64_t slots_ = 0;
  arrow::BufferBuilder indices_;
  std::unordered_map<std::string, int64_t> known_;
  std::unique_ptr<SlotBuilder> values_;
};

}  // namespace sarissa::lance
