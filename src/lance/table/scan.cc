#include "lance/table/scan.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/type.h>

#include <algorithm>
#include <span>
#include <utility>

#include "env/mapped_range.h"
#include "lance/table/fragment.h"
#include "lance/table/row_selection.h"

namespace sarissa::lance {
namespace {

Result<std::shared_ptr<arrow::Array>> AddressesOf(uint64_t fragment,
                                                  std::span<const uint64_t> offsets) {
  arrow::UInt64Builder builder;
  ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<int64_t>(offsets.size())));
  for (const uint64_t offset : offsets) builder.UnsafeAppend(fragment << 32 | offset);
  return builder.Finish();
}

class TableScan final : public BatchStream {
 public:
  TableScan(std::shared_ptr<const Table> table, std::shared_ptr<OpenFiles> files,
            const ScanOptions& options, Schema projection)
      : table_(std::move(table)),
        files_(std::move(files)),
        options_(options),
        projection_(std::move(projection)) {
    schema_ = projection_.arrow_schema();
    if (!options_.with_row_address) return;
    auto fields = schema_->fields();
    fields.push_back(arrow::field("_rowaddr", arrow::uint64(), /*nullable=*/false));
    schema_ = arrow::schema(std::move(fields), schema_->metadata());
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    while (true) {
      if (fragment_ == nullptr) {
        ARROW_ASSIGN_OR_RAISE(const bool any, OpenNextFragment());
        if (!any) return nullptr;
      }
      if (row_ >= fragment_->physical_rows()) {
        fragment_ = nullptr;
        continue;
      }
      const uint64_t last = std::min(fragment_->physical_rows(), row_ + rows_per_batch_);
      const uint64_t first = std::exchange(row_, last);
      LiveRows(first, last);
      if (!live_.empty()) return ReadLive();
    }
  }

 private:
  Result<bool> OpenNextFragment() {
    const auto& fragments = table_->manifest().fragments();
    if (next_fragment_ == fragments.size()) return false;
    ARROW_ASSIGN_OR_RAISE(fragment_,
                          Fragment::Open(*files_, fragments[next_fragment_++], projection_));
    row_ = 0;
    ARROW_ASSIGN_OR_RAISE(const auto bytes, fragment_->BytesPerRow());
    rows_per_batch_ = std::max<uint64_t>(options_.batch_rows, 1);
    uint64_t variable_bytes = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      // Values of this size come as mapped ranges when they are read one by one.
      if (bytes[i] >= static_cast<uint64_t>(env::kMapThresholdBytes)) rows_per_batch_ = 1;
      variable_bytes += bytes[i];
    }
    if (variable_bytes > 0) {
      rows_per_batch_ =
          std::clamp<uint64_t>(options_.batch_bytes / variable_bytes, 1, rows_per_batch_);
    }
    return true;
  }

  // Offsets of [first, last) that are not deleted, into live_.
  void LiveRows(uint64_t first, uint64_t last) {
    live_.clear();
    auto deleted = fragment_->deletions().Range(first, last);
    for (uint64_t row = first; row < last; ++row) {
      if (!deleted.empty() && deleted.front() == row) {
        deleted = deleted.subspan(1);
      } else {
        live_.push_back(row);
      }
    }
  }

  Result<std::shared_ptr<arrow::RecordBatch>> ReadLive() {
    const uint64_t first = live_.front();
    const uint64_t count = live_.back() - first + 1;
    ARROW_ASSIGN_OR_RAISE(auto batch, fragment_->Read(first, count));
    if (count != live_.size()) {
      std::vector<int64_t> kept;
      kept.reserve(live_.size());
      for (const uint64_t row : live_) kept.push_back(static_cast<int64_t>(row - first));
      ARROW_ASSIGN_OR_RAISE(batch, TakeRows(*batch, kept));
    }
    if (!options_.with_row_address) return batch;
    auto columns = batch->columns();
    ARROW_ASSIGN_OR_RAISE(auto addresses, AddressesOf(fragment_->id(), live_));
    columns.push_back(std::move(addresses));
    return arrow::RecordBatch::Make(schema_, batch->num_rows(), std::move(columns));
  }

  const std::shared_ptr<const Table> table_;
  const std::shared_ptr<OpenFiles> files_;
  const ScanOptions options_;
  const Schema projection_;
  std::shared_ptr<arrow::Schema> schema_;
  int next_fragment_ = 0;
  std::shared_ptr<const Fragment> fragment_;
  uint64_t row_ = 0;
  uint64_t rows_per_batch_ = 1;
  std::vector<uint64_t> live_;
};

}  // namespace

Result<Schema> Project(const Schema& schema,
                       const std::optional<std::vector<std::string>>& columns) {
  if (!columns) return schema;
  return schema.Select(*columns);
}

Result<std::unique_ptr<BatchStream>> ScanTable(std::shared_ptr<const Table> table,
                                               std::shared_ptr<OpenFiles> files,
                                               const ScanOptions& options) {
  ARROW_ASSIGN_OR_RAISE(Schema projection, Project(table->schema(), options.columns));
  return std::make_unique<TableScan>(std::move(table), std::move(files), options,
                                     std::move(projection));
}

}  // namespace sarissa::lance
