#include "rollout/record_columns.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/builder_dict.h>
#include <arrow/builder.h>
#include <arrow/memory_pool.h>

#include <cstring>
#include <utility>

namespace sarissa::rollout {
namespace {

// One LargeBinary value that is the whole of `payload`.
Result<std::shared_ptr<arrow::Array>> WholeBufferArray(std::shared_ptr<arrow::Buffer> payload) {
  const std::array<int64_t, 2> offsets = {0, payload->size()};
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(sizeof(offsets)));
  std::memcpy(buffer->mutable_data(), offsets.data(), sizeof(offsets));
  return std::make_shared<arrow::LargeBinaryArray>(1, std::move(buffer), std::move(payload));
}

bool IsLargeText(Column column) {
  return RecordSchema()->field(column)->type()->id() == arrow::Type::LARGE_STRING;
}

template <typename ItemBuilder, typename Item>
Status AppendItems(arrow::ListBuilder& list, std::span<const Item> items) {
  ARROW_RETURN_NOT_OK(list.Append());
  return static_cast<ItemBuilder&>(*list.value_builder())
      .AppendValues(items.data(), static_cast<int64_t>(items.size()));
}

}  // namespace

Result<std::unique_ptr<RecordColumns>> RecordColumns::Make() {
  std::unique_ptr<RecordColumns> columns(new RecordColumns());
  for (int i = 0; i < kColumnCount; ++i) {
    if (i == kRole) continue;
    ARROW_ASSIGN_OR_RAISE(columns->builders_[static_cast<size_t>(i)],
                          arrow::MakeBuilder(RecordSchema()->field(i)->type()));
  }
  return columns;
}

Status RecordColumns::AppendNull(Column column) {
  return builders_[static_cast<size_t>(column)]->AppendNull();
}

Status RecordColumns::AppendText(Column column, std::string_view value) {
  if (IsLargeText(column)) return At<arrow::LargeStringBuilder>(column).Append(value);
  return At<arrow::StringBuilder>(column).Append(value);
}

Status RecordColumns::AppendInt32(Column column, int32_t value) {
  return At<arrow::Int32Builder>(column).Append(value);
}

Status RecordColumns::AppendInt64(Column column, int64_t value) {
  return At<arrow::Int64Builder>(column).Append(value);
}

Status RecordColumns::AppendFloat(Column column, float value) {
  return At<arrow::FloatBuilder>(column).Append(value);
}

Status RecordColumns::AppendBool(Column column, bool value) {
  return At<arrow::BooleanBuilder>(column).Append(value);
}

Status RecordColumns::AppendTimestamp(int64_t micros) {
  return At<arrow::TimestampBuilder>(kCreatedAt).Append(micros);
}

Status RecordColumns::AppendRole(std::string_view role) { return roles_.Append(role); }

Status RecordColumns::AppendList(Column column, std::span<const int32_t> items) {
  return AppendItems<arrow::Int32Builder>(At<arrow::ListBuilder>(column), items);
}

Status RecordColumns::AppendList(Column column, std::span<const int8_t> items) {
  return AppendItems<arrow::Int8Builder>(At<arrow::ListBuilder>(column), items);
}

Status RecordColumns::AppendList(Column column, std::span<const float> items) {
  return AppendItems<arrow::FloatBuilder>(At<arrow::ListBuilder>(column), items);
}

Status RecordColumns::BeginRelationships() { return At<arrow::ListBuilder>(kRelationships).Append(); }

Status RecordColumns::AppendRelationship(std::string_view target_id, std::string_view relation,
                                         std::optional<float> weight) {
  auto& item = static_cast<arrow::StructBuilder&>(
      *At<arrow::ListBuilder>(kRelationships).value_builder());
  ARROW_RETURN_NOT_OK(item.Append());
  ARROW_RETURN_NOT_OK(static_cast<arrow::StringBuilder&>(*item.field_builder(0)).Append(target_id));
  ARROW_RETURN_NOT_OK(static_cast<arrow::StringBuilder&>(*item.field_builder(1)).Append(relation));
  auto& weights = static_cast<arrow::FloatBuilder&>(*item.field_builder(2));
  return weight.has_value() ? weights.Append(*weight) : weights.AppendNull();
}

Status RecordColumns::AppendPayload(std::string_view bytes) {
  return At<arrow::LargeBinaryBuilder>(kBinaryPayload).Append(bytes);
}

std::string_view RecordColumns::LastText(Column column) const {
  const auto& builder = At<arrow::StringBuilder>(column);
  return builder.GetView(builder.length() - 1);
}

Result<std::shared_ptr<arrow::RecordBatch>> RecordColumns::FinishColumns() {
  std::vector<std::shared_ptr<arrow::Array>> arrays(kColumnCount);
  for (size_t i = 0; i < kColumnCount; ++i) {
    if (i == kRole) {
      ARROW_ASSIGN_OR_RAISE(arrays[i], roles_.Finish());
    } else {
      ARROW_ASSIGN_OR_RAISE(arrays[i], builders_[i]->Finish());
    }
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
