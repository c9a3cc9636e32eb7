#include "lance/file/page_values.h"

#include <arrow/type.h>
#include <arrow/type_traits.h>

#include "lance/file/dictionary_values.h"
#include "lance/file/fixed_values.h"
#include "lance/file/variable_values.h"

namespace sarissa::lance {
namespace {

// A column of nulls only: its pages are constant and hold no values.
class NoValues : public PageValues {
 public:
  int64_t EstimateBytes(const arrow::ArrayData&, SlotRange) const override { return 0; }
  Status Append(const arrow::ArrayData&, std::span<const SlotRange>, const uint8_t*) override {
    return Status::OK();
  }
  int64_t bytes() const override { return 0; }
  void Clear() override {}
  bool needs_full_zip() const override { return false; }
  bool can_full_zip() const override { return false; }
  int64_t ChunkBufferSize(int, int64_t, int64_t) const override { return 0; }
  void FillChunkBuffer(int, int64_t, int64_t, uint8_t*) const override {}
  void DescribeMiniBlock(pb::encodings::CompressiveEncoding*) const override {}
};

}  // namespace

Result<std::unique_ptr<PageValues>> PageValues::Make(const std::shared_ptr<arrow::DataType>& type) {
  if (type->id() == arrow::Type::NA) return std::make_unique<NoValues>();
  if (type->id() == arrow::Type::DICTIONARY) {
    return DictionaryValues::Make(static_cast<const arrow::DictionaryType&>(*type));
  }
  if (arrow::is_large_binary_like(type->id())) return std::make_unique<VariableValues<int64_t>>();
  if (arrow::is_base_binary_like(type->id())) return std::make_unique<VariableValues<int32_t>>();
  if (type->id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
    return std::make_unique<FixedValues>(list.value_type()->bit_width(), list.list_size());
  }
  if (arrow::is_fixed_width(type->id())) return std::make_unique<FixedValues>(type->bit_width(), 0);
  return Error(ErrorKind::kUnsupported, "type {} is not supported", type->ToString());
}

Status PageValues::WriteFullZip(const ColumnPath& path, const PageLevels&, ContainerWriter*,
                                std::vector<uint64_t>*) const {
  return Error(ErrorKind::kInternal, "column '{}' has no full-zip layout", path.name());
}

void PageValues::DescribeFullZip(pb::encodings::FullZipLayout*) const {}

}  // namespace sarissa::lance
