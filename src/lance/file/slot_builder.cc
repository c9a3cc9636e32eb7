#include "lance/file/slot_builder.h"

#include "lance/file/dictionary_slots.h"
#include "lance/file/fixed_slots.h"
#include "lance/file/variable_slots.h"

namespace sarissa::lance {
namespace {

// Leaves of type null: slots without values.
class NullSlots final : public SlotBuilder {
 public:
  Status AppendBlock(const ValueBlock& /*block*/, uint64_t /*first*/, uint64_t /*count*/,
                     Validity /*valid*/) override {
    return HasValue();
  }
  Status AppendIndexed(const ValueBlock& /*indices*/, PageDictionary* /*dictionary*/,
                       uint64_t /*first*/, uint64_t /*count*/, Validity /*valid*/) override {
    return HasValue();
  }
  Status AppendRepeated(const ValueBlock& /*block*/, uint64_t /*count*/) override {
    return HasValue();
  }
  Status AppendEmpty(uint64_t count) override {
    slots_ += count;
    return Status::OK();
  }
  Status AppendShared(std::shared_ptr<arrow::Buffer> /*value*/) override { return HasValue(); }
  uint64_t slots() const override { return slots_; }

  Result<std::shared_ptr<arrow::ArrayData>> Finish() override {
    const auto length = static_cast<int64_t>(slots_);
    return arrow::ArrayData::Make(arrow::null(), length, {nullptr}, length);
  }

 private:
  static Status HasValue() { return Error(ErrorKind::kCorrupt, "a column of nulls has values"); }

  uint64_t slots_ = 0;
};

}  // namespace

std::unique_ptr<SlotBuilder> SlotBuilder::Make(const LeafShape& shape, uint64_t expected_slots) {
  if (shape.dictionary) return std::make_unique<DictionarySlots>(shape);
  switch (shape.values.kind) {
    case ValueShape::Kind::kNull:
      return std::make_unique<NullSlots>();
    case ValueShape::Kind::kVariable:
      return std::make_unique<VariableSlots>(shape.type, shape.values);
    case ValueShape::Kind::kFixed:
      break;
  }
  return std::make_unique<FixedSlots>(shape.type, shape.values, expected_slots);
}

}  // namespace sarissa::lance
