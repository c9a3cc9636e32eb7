#include "lance/table/row_selection.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>

#include <utility>

namespace sarissa::lance {

Result<std::shared_ptr<arrow::RecordBatch>> TakeRows(const arrow::RecordBatch& batch,
                                                     std::span<const int64_t> rows) {
  arrow::Int64Builder builder;
  ARROW_RETURN_NOT_OK(builder.AppendValues(rows.data(), static_cast<int64_t>(rows.size())));
  std::shared_ptr<arrow::Array> indices;
  ARROW_RETURN_NOT_OK(builder.Finish(&indices));
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& column : batch.columns()) {
    ARROW_ASSIGN_OR_RAISE(
        auto taken,
        arrow::compute::Take(*column, *indices, arrow::compute::TakeOptions::NoBoundsCheck()));
    columns.push_back(std::move(taken));
  }
  return arrow::RecordBatch::Make(batch.schema(), static_cast<int64_t>(rows.size()),
                                  std::move(columns));
}

Result<std::shared_ptr<arrow::RecordBatch>> ConcatenateParts(
    const std::shared_ptr<arrow::Schema>& schema,
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& parts) {
  if (parts.size() == 1) return parts[0];
  int64_t rows = 0;
  for (const auto& part : parts) rows += part->num_rows();
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (int i = 0; i < schema->num_fields(); ++i) {
    if (parts.empty()) {
      ARROW_ASSIGN_OR_RAISE(auto empty, arrow::MakeEmptyArray(schema->field(i)->type()));
      columns.push_back(std::move(empty));
      continue;
    }
    arrow::ArrayVector chunks;
    for (const auto& part : parts) chunks.push_back(part->column(i));
    ARROW_ASSIGN_OR_RAISE(auto column, arrow::Concatenate(chunks));
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(schema, rows, std::move(columns));
}

}  // namespace sarissa::lance
