#include "memwal/storage_schema.h"

#include <arrow/array.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/util/bit_util.h>

#include <cstring>

namespace sarissa::memwal {
namespace {

Result<std::shared_ptr<arrow::Array>> AllFalse(int64_t rows) {
  ARROW_ASSIGN_OR_RAISE(auto bits, arrow::AllocateBuffer(arrow::bit_util::BytesForBits(rows)));
  std::memset(bits->mutable_data(), 0, static_cast<size_t>(bits->size()));
  return std::make_shared<arrow::BooleanArray>(rows,
                                               std::shared_ptr<arrow::Buffer>(std::move(bits)));
}

}  // namespace

Result<lance::Schema> StorageSchema(const lance::Schema& base) {
  return base.WithAppended(arrow::field(kTombstoneColumn, arrow::boolean(), /*nullable=*/false));
}

Result<std::shared_ptr<arrow::RecordBatch>> WithLiveTombstones(
    const std::shared_ptr<arrow::RecordBatch>& batch, const lance::Schema& storage) {
  ARROW_ASSIGN_OR_RAISE(auto tombstones, AllFalse(batch->num_rows()));
  auto columns = batch->columns();
  columns.push_back(std::move(tombstones));
  return arrow::RecordBatch::Make(storage.arrow_schema(), batch->num_rows(), std::move(columns));
}

Result<std::shared_ptr<arrow::RecordBatch>> AlignToStorage(const arrow::RecordBatch& batch,
                                                           const lance::Schema& storage) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  columns.reserve(static_cast<size_t>(storage.arrow_schema()->num_fields()));
  for (const auto& field : storage.arrow_schema()->fields()) {
    auto column = batch.GetColumnByName(field->name());
    if (column == nullptr && field->name() == kTombstoneColumn) {
      ARROW_ASSIGN_OR_RAISE(column, AllFalse(batch.num_rows()));
    } else if (column == nullptr && field->nullable()) {
      ARROW_ASSIGN_OR_RAISE(column, arrow::MakeArrayOfNull(field->type(), batch.num_rows()));
    } else if (column == nullptr) {
      return Error(ErrorKind::kCorrupt, "column {} is missing and may not be null", field->name());
    }
    if (!column->type()->Equals(*field->type())) {
      return Error(ErrorKind::kCorrupt, "column {} is {} here and {} in the table", field->name(),
                   column->type()->ToString(), field->type()->ToString());
    }
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(storage.arrow_schema(), batch.num_rows(), std::move(columns));
}

}  // namespace sarissa::memwal
