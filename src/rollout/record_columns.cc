#include "rollout/record_columns.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/util.h>
#include <arrow/builder.h>
#include <arrow/memory_pool.h>

#include <cstring>
#include <utility>

namespace sarissa::rollout {
namespace {

// One LargeBinary value that is the whole of `payload`.
Result<std::shared_ptr<arrow::Array>> WholeBufferArray(std::shared_ptr<arrow::Buffer> payload) {
  const std::array<int64_t, 2> offsets = {0, payload->size()};
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(sizeof(offsets)));
  std::memcpy(buffer->mutable_data(), offsets.data(), sizeof(offsets));
  return std::make_shared<arrow::LargeBinaryArray>(1, std::move(buffer), std::move(payload));
}

bool IsLargeText(Column column) {
  return RecordSchema()->field(column)->type()->id() == arrow::Type::LARGE_STRING;
}

template <typename ItemBuilder, typename Item>
Status AppendItems(arrow::ListBuilder& list, std::span<const Item> items) {
  ARROW_RETURN_NOT_OK(list.Append());
  if (items.empty()) return Status::OK();
  return static_cast<ItemBuilder&>(*list.value_builder())
      .AppendValues(items.data(), static_cast<int64_t>(items.size()));
}

using ColumnArrays = std::array<std::shared_ptr<arrow::Array>, kColumnCount>;

Result<ColumnArrays> MakeSingleNulls() {
  ColumnArrays arrays;
  for (int i = 0; i < kColumnCount; ++i) {
    ARROW_ASSIGN_OR_RAISE(arrays[static_cast<size_t>(i)],
                          arrow::MakeArrayOfNull(RecordSchema()->field(i)->type(), 1));
  }
  return arrays;
}

// One record per request is the common case, so its null columns are made once.
Result<std::shared_ptr<arrow::Array>> NullColumn(Column column, int64_t rows) {
  if (rows != 1) return arrow::MakeArrayOfNull(RecordSchema()->field(column)->type(), rows);
  static const Result<ColumnArrays> singles = MakeSingleNulls();
  ARROW_RETURN_NOT_OK(singles.status());
  return (*singles)[static_cast<size_t>(column)];
}

}  // namespace

Status RecordColumns::Begin(Column column) {
  auto& builder = builders_[static_cast<size_t>(column)];
  ARROW_ASSIGN_OR_RAISE(builder, arrow::MakeBuilder(RecordSchema()->field(column)->type()));
  return builder->AppendNulls(rows_);
}

Status RecordColumns::AppendNull(Column column) {
  const auto& builder = builders_[static_cast<size_t>(column)];
  return builder == nullptr ? Status::OK() : builder->AppendNull();
}

Status RecordColumns::AppendText(Column column, std::string_view value) {
  if (IsLargeText(column)) {
    ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::LargeStringBuilder>(column));
    return builder->Append(value);
  }
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::StringBuilder>(column));
  return builder->Append(value);
}

Status RecordColumns::AppendInt32(Column column, int32_t value) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::Int32Builder>(column));
  return builder->Append(value);
}

Status RecordColumns::AppendInt64(Column column, int64_t value) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::Int64Builder>(column));
  return builder->Append(value);
}

Status RecordColumns::AppendFloat(Column column, float value) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::FloatBuilder>(column));
  return builder->Append(value);
}

Status RecordColumns::AppendBool(Column column, bool value) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::BooleanBuilder>(column));
  return builder->Append(value);
}

Status RecordColumns::AppendTimestamp(int64_t micros) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::TimestampBuilder>(kCreatedAt));
  return builder->Append(micros);
}

Status RecordColumns::AppendRole(std::string_view role) {
  return roles_.Append(role);
}

Status RecordColumns::AppendList(Column column, std::span<const int32_t> items) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::ListBuilder>(column));
  return AppendItems<arrow::Int32Builder>(*builder, items);
}

Status RecordColumns::AppendList(Column column, std::span<const int8_t> items) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::ListBuilder>(column));
  return AppendItems<arrow::Int8Builder>(*builder, items);
}

Status RecordColumns::AppendList(Column column, std::span<const float> items) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::ListBuilder>(column));
  return AppendItems<arrow::FloatBuilder>(*builder, items);
}

Status RecordColumns::BeginRelationships() {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::ListBuilder>(kRelationships));
  return builder->Append();
}

Status RecordColumns::AppendRelationship(std::string_view target_id, std::string_view relation,
                                         std::optional<float> weight) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::ListBuilder>(kRelationships));
  auto& item = static_cast<arrow::StructBuilder&>(*builder->value_builder());
  ARROW_RETURN_NOT_OK(item.Append());
  ARROW_RETURN_NOT_OK(static_cast<arrow::StringBuilder&>(*item.field_builder(0)).Append(target_id));
  ARROW_RETURN_NOT_OK(static_cast<arrow::StringBuilder&>(*item.field_builder(1)).Append(relation));
  auto& weights = static_cast<arrow::FloatBuilder&>(*item.field_builder(2));
  return weight.has_value() ? weights.Append(*weight) : weights.AppendNull();
}

Status RecordColumns::AppendPayload(std::string_view bytes) {
  ARROW_ASSIGN_OR_RAISE(auto* builder, At<arrow::LargeBinaryBuilder>(kBinaryPayload));
  // An empty view may have no address, which the builder would hand to memcpy.
  return bytes.empty() ? builder->AppendEmptyValue() : builder->Append(bytes);
}

std::string_view RecordColumns::LastText(Column column) const {
  const auto& builder =
      static_cast<const arrow::StringBuilder&>(*builders_[static_cast<size_t>(column)]);
  return builder.GetView(builder.length() - 1);
}

Result<std::shared_ptr<arrow::Array>> RecordColumns::FinishColumn(Column column) {
  if (column == kRole) return roles_.Finish();
  const auto& builder = builders_[static_cast<size_t>(column)];
  return builder == nullptr ? NullColumn(column, rows_) : builder->Finish();
}

Result<std::shared_ptr<arrow::RecordBatch>> RecordColumns::FinishColumns() {
  std::vector<std::shared_ptr<arrow::Array>> arrays(kColumnCount);
  for (int i = 0; i < kColumnCount; ++i) {
    ARROW_ASSIGN_OR_RAISE(arrays[static_cast<size_t>(i)], FinishColumn(static_cast<Column>(i)));
  }
  return arrow::RecordBatch::Make(RecordSchema(), std::exchange(rows_, 0), std::move(arrays));
}

Status RecordColumns::Cut() {
  if (rows_ == 0) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto batch, FinishColumns());
  batches_.push_back(std::move(batch));
  return Status::OK();
}

Status RecordColumns::CutLarge() {
  // A null stands in for the payload, so that all columns are equally long.
  ARROW_RETURN_NOT_OK(AppendNull(kBinaryPayload));
  ARROW_ASSIGN_OR_RAISE(auto batch, FinishColumns());
  const int64_t before = batch->num_rows() - 1;
  if (before > 0) batches_.push_back(batch->Slice(0, before));
  ARROW_ASSIGN_OR_RAISE(auto payload, WholeBufferArray(std::move(large_payload_)));
  large_payload_ = nullptr;
  ARROW_ASSIGN_OR_RAISE(
      batch, (before > 0 ? batch->Slice(before, 1) : batch)
                 ->SetColumn(kBinaryPayload, RecordSchema()->field(kBinaryPayload), payload));
  batches_.push_back(std::move(batch));
  return Status::OK();
}

Status RecordColumns::FinishRow() {
  ++rows_;
  return large_payload_ == nullptr ? Status::OK() : CutLarge();
}

Result<std::vector<std::shared_ptr<arrow::RecordBatch>>> RecordColumns::Finish() {
  ARROW_RETURN_NOT_OK(Cut());
  return std::move(batches_);
}

}  // namespace sarissa::rollout
