#include "engine/merge_scan.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/array/util.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/exec.h>
#include <arrow/compute/initialize.h>

#include <algorithm>
#include <limits>

#include "memwal/key_column.h"
#include "memwal/storage_schema.h"

namespace sarissa::engine {
namespace {

// Rows that the filter pass looks at in one step.
constexpr uint64_t kFilterBatchRows = 1024;
// Rows taken at once after a filter, before their size is known.
constexpr size_t kFirstTakeRows = 16;

Status InitializeCompute() {
  static const Status initialized = arrow::compute::Initialize();
  return initialized;
}

Result<std::shared_ptr<arrow::RecordBatch>> KeepRows(
    const std::shared_ptr<arrow::RecordBatch>& batch, const std::vector<uint8_t>& keep) {
  const auto kept = std::count(keep.begin(), keep.end(), uint8_t{1});
  if (kept == batch->num_rows()) return batch;
  // A run of rows shares the batch's buffers.
  const auto first = std::find(keep.begin(), keep.end(), uint8_t{1});
  if (std::all_of(first, first + kept, [](uint8_t k) { return k == 1; })) {
    return batch->Slice(first - keep.begin(), kept);
  }
  ARROW_RETURN_NOT_OK(InitializeCompute());
  arrow::Int64Builder indices;
  ARROW_RETURN_NOT_OK(indices.Reserve(kept));
  for (size_t row = 0; row < keep.size(); ++row) {
    if (keep[row] != 0) indices.UnsafeAppend(static_cast<int64_t>(row));
  }
  ARROW_ASSIGN_OR_RAISE(const auto rows, indices.Finish());
  arrow::compute::ExecContext context;
  context.set_use_threads(false);
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& column : batch->columns()) {
    ARROW_ASSIGN_OR_RAISE(
        arrow::Datum taken,
        arrow::compute::Take(column, rows, arrow::compute::TakeOptions::NoBoundsCheck(), &context));
    columns.push_back(taken.make_array());
  }
  return arrow::RecordBatch::Make(batch->schema(), kept, std::move(columns));
}

Result<std::shared_ptr<arrow::RecordBatch>> Project(const arrow::RecordBatch& batch,
                                                    const std::shared_ptr<arrow::Schema>& schema) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (const auto& field : schema->fields()) {
    auto column = batch.GetColumnByName(field->name());
    if (column == nullptr)
      return Error(ErrorKind::kInternal, "column {} is missing from a source", field->name());
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(schema, batch.num_rows(), std::move(columns));
}

class MergeStream final : public lance::BatchStream {
 public:
  MergeStream(std::shared_ptr<const Snapshot> snapshot, std::shared_ptr<arrow::Schema> schema,
              ReadOptions options)
      : snapshot_(std::move(snapshot)),
        schema_(std::move(schema)),
        options_(std::move(options)),
        to_skip_(options_.offset),
        left_(options_.limit.value_or(std::numeric_limits<uint64_t>::max())) {}

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    while (left_ > 0 && source_ < snapshot_->sources.size()) {
      ARROW_ASSIGN_OR_RAISE(auto batch, NextOfSource());
      if (batch == nullptr) {
        LeaveSource();
        continue;
      }
      batch = Page(batch);
      if (batch->num_rows() > 0) return Project(*batch, schema_);
    }
    return nullptr;
  }

 private:
  void LeaveSource() {
    ++source_;
    stream_.reset();
    next_memtable_batch_ = 0;
    kept_addresses_.clear();
    next_kept_ = 0;
  }

  // Offset and limit, counted after hiding and filtering.
  std::shared_ptr<arrow::RecordBatch> Page(std::shared_ptr<arrow::RecordBatch> batch) {
    const auto rows = static_cast<uint64_t>(batch->num_rows());
    const uint64_t skipped = std::min(to_skip_, rows);
    to_skip_ -= skipped;
    const uint64_t taken = std::min(left_, rows - skipped);
    left_ -= taken;
    return batch->Slice(static_cast<int64_t>(skipped), static_cast<int64_t>(taken));
  }

  Result<std::shared_ptr<arrow::RecordBatch>> NextOfSource() {
    const Source& source = snapshot_->sources[source_];
    if (source.memtable) return NextOfMemtable(*source.memtable);
    const lance::Table& table = source.base != nullptr ? *source.base : source.generation->table();
    if (options_.filter != nullptr) return NextFiltered(table);
    return NextUnfiltered(table);
  }

  // Clears keep[i] for tombstones and for rows that a later source has again.
  Status Hide(const arrow::RecordBatch& batch, std::vector<uint8_t>& keep) const {
    const auto keys = batch.GetColumnByName(snapshot_->key_column);
    const auto tombstones = batch.GetColumnByName(memwal::kTombstoneColumn);
    if (keys == nullptr)
      return Error(ErrorKind::kInternal, "the key column is missing from a source");
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      auto& kept = keep[static_cast<size_t>(row)];
      if (kept == 0) continue;
      const bool deleted =
          tombstones != nullptr && static_cast<const arrow::BooleanArray&>(*tombstones).Value(row);
      if (deleted || snapshot_->HiddenByNewer(memwal::KeyBytes(*keys, row), source_)) kept = 0;
    }
    return Status::OK();
  }

  Result<std::shared_ptr<arrow::RecordBatch>> NextOfMemtable(const memwal::MemtableView& memtable) {
    if (next_memtable_batch_ == memtable.batches().size()) return nullptr;
    const memwal::MemtableBatch& held = *memtable.batches()[next_memtable_batch_++];
    std::vector<uint8_t> keep(static_cast<size_t>(held.batch->num_rows()), 1);
    for (size_t row = 0; row < keep.size(); ++row) {
      if (memtable.Superseded(held, static_cast<int64_t>(row))) keep[row] = 0;
    }
    if (options_.filter != nullptr)
      ARROW_RETURN_NOT_OK(options_.filter->Evaluate(*held.batch, keep));
    ARROW_RETURN_NOT_OK(Hide(*held.batch, keep));
    ARROW_ASSIGN_OR_RAISE(const auto projected, Project(*held.batch, schema_));
    return KeepRows(projected, keep);
  }

  // The columns of `wanted`, the key and (in generations) the tombstone, each once.
  std::vector<std::string> WithInternal(std::vector<std::string> wanted,
                                        const lance::Table& table) const {
    const auto add = [&](const std::string& name) {
      if (std::find(wanted.begin(), wanted.end(), name) == wanted.end()) wanted.push_back(name);
    };
    add(snapshot_->key_column);
    if (table.schema().arrow_schema()->GetFieldIndex(memwal::kTombstoneColumn) >= 0)
      add(memwal::kTombstoneColumn);
    return wanted;
  }

  Result<std::shared_ptr<arrow::RecordBatch>> NextUnfiltered(const lance::Table& table) {
    if (stream_ == nullptr) {
      lance::ScanOptions scan;
      scan.columns = WithInternal(schema_->field_names(), table);
      scan.batch_rows =
          std::min(options_.batch_rows, std::max<uint64_t>(1, SaturatedSum(left_, to_skip_)));
      scan.batch_bytes = options_.batch_bytes;
      ARROW_ASSIGN_OR_RAISE(stream_, table.Scan(scan));
    }
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream_->Next());
    if (batch == nullptr) return nullptr;
    std::vector<uint8_t> keep(static_cast<size_t>(batch->num_rows()), 1);
    ARROW_RETURN_NOT_OK(Hide(*batch, keep));
    return KeepRows(batch, keep);
  }

  // First pass: key and filter columns only. Second pass: the kept rows' other columns.
  Result<std::shared_ptr<arrow::RecordBatch>> NextFiltered(const lance::Table& table) {
    while (next_kept_ == kept_addresses_.size()) {
      ARROW_ASSIGN_OR_RAISE(const bool more, FindKept(table));
      if (!more) return nullptr;
    }
    // Rows that the page skips need not be read.
    if (to_skip_ > 0) {
      const auto skipped = std::min<uint64_t>(to_skip_, kept_addresses_.size() - next_kept_);
      to_skip_ -= skipped;
      next_kept_ += skipped;
      if (next_kept_ == kept_addresses_.size()) return arrow::RecordBatch::MakeEmpty(schema_);
    }
    const size_t count =
        std::min({take_rows_, kept_addresses_.size() - next_kept_,
                  static_cast<size_t>(std::min<uint64_t>(left_, options_.batch_rows))});
    ARROW_ASSIGN_OR_RAISE(
        const auto taken,
        table.Take(std::span(kept_addresses_).subspan(next_kept_, count), schema_->field_names()));
    next_kept_ += count;
    const int64_t bytes = std::max<int64_t>(1, memwal::PinnedBytes(*taken));
    const uint64_t fitting = options_.batch_bytes * count / static_cast<uint64_t>(bytes);
    take_rows_ = static_cast<size_t>(
        std::clamp<uint64_t>(fitting, 1, std::max<uint64_t>(1, options_.batch_rows)));
    return taken;
  }

  Result<bool> FindKept(const lance::Table& table) {
    if (stream_ == nullptr) {
      lance::ScanOptions scan;
      scan.columns = WithInternal(options_.filter->columns(), table);
      scan.batch_rows = kFilterBatchRows;
      scan.with_row_address = true;
      ARROW_ASSIGN_OR_RAISE(stream_, table.Scan(scan));
    }
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream_->Next());
    if (batch == nullptr) return false;
    std::vector<uint8_t> keep(static_cast<size_t>(batch->num_rows()), 1);
    ARROW_RETURN_NOT_OK(options_.filter->Evaluate(*batch, keep));
    ARROW_RETURN_NOT_OK(Hide(*batch, keep));
    const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch->columns().back());
    kept_addresses_.clear();
    next_kept_ = 0;
    for (size_t row = 0; row < keep.size(); ++row) {
      if (keep[row] != 0) kept_addresses_.push_back(addresses.Value(static_cast<int64_t>(row)));
    }
    return true;
  }

  static uint64_t SaturatedSum(uint64_t a, uint64_t b) {
    return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max()
                                                        : a + b;
  }

  const std::shared_ptr<const Snapshot> snapshot_;
  const std::shared_ptr<arrow::Schema> schema_;
  const ReadOptions options_;
  uint64_t to_skip_;
  uint64_t left_;
  size_t source_ = 0;
  std::unique_ptr<lance::BatchStream> stream_;
  size_t next_memtable_batch_ = 0;
  std::vector<lance::RowAddress> kept_addresses_;
  size_t next_kept_ = 0;
  size_t take_rows_ = kFirstTakeRows;
};

Result<std::shared_ptr<arrow::Schema>> SelectColumns(
    const std::shared_ptr<arrow::Schema>& user_schema,
    const std::optional<std::vector<std::string>>& columns) {
  if (!columns) return user_schema;
  arrow::FieldVector fields;
  for (const std::string& name : *columns) {
    auto field = user_schema->GetFieldByName(name);
    if (field == nullptr) return Error(ErrorKind::kInvalid, "there is no column '{}'", name);
    fields.push_back(std::move(field));
  }
  return arrow::schema(std::move(fields));
}

// The base has no map of its keys; its key column is read.
Result<std::optional<lance::RowAddress>> FindInBase(const lance::Table& base,
                                                    const std::string& key_column,
                                                    std::string_view key) {
  lance::ScanOptions scan;
  scan.columns = {key_column};
  scan.with_row_address = true;
  scan.batch_rows = 64 << 10;
  ARROW_ASSIGN_OR_RAISE(auto stream, base.Scan(scan));
  std::optional<lance::RowAddress> found;
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) return found;
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      if (memwal::KeyBytes(*batch->column(0), row) == key)
        found = static_cast<const arrow::UInt64Array&>(*batch->column(1)).Value(row);
    }
  }
}

Result<std::shared_ptr<arrow::RecordBatch>> TakeOne(const lance::Table& table,
                                                    lance::RowAddress address,
                                                    const std::shared_ptr<arrow::Schema>& schema) {
  const lance::RowAddress addresses[] = {address};
  auto names = schema->field_names();
  const bool has_tombstones =
      table.schema().arrow_schema()->GetFieldIndex(memwal::kTombstoneColumn) >= 0;
  if (has_tombstones) names.push_back(memwal::kTombstoneColumn);
  ARROW_ASSIGN_OR_RAISE(const auto row, table.Take(addresses, names));
  if (has_tombstones && static_cast<const arrow::BooleanArray&>(*row->columns().back()).Value(0))
    return nullptr;
  return Project(*row, schema);
}

}  // namespace

Result<std::unique_ptr<lance::BatchStream>> MergeScan(
    std::shared_ptr<const Snapshot> snapshot, const std::shared_ptr<arrow::Schema>& user_schema,
    const ReadOptions& options) {
  ARROW_ASSIGN_OR_RAISE(auto schema, SelectColumns(user_schema, options.columns));
  return std::make_unique<MergeStream>(std::move(snapshot), std::move(schema), options);
}

Result<std::shared_ptr<arrow::RecordBatch>> PointRead(
    const Snapshot& snapshot, const std::shared_ptr<arrow::Schema>& user_schema,
    std::string_view key, const std::vector<std::string>& columns) {
  ARROW_ASSIGN_OR_RAISE(const auto schema, SelectColumns(user_schema, columns));
  const GenerationRow* in_generation = snapshot.generation_keys->Find(key);
  const size_t oldest_memtable = in_generation == nullptr ? 0 : in_generation->source;
  for (size_t source = snapshot.sources.size(); source-- > oldest_memtable;) {
    const auto& memtable = snapshot.sources[source].memtable;
    if (!memtable) continue;
    const auto position = memtable->Find(key);
    if (!position) continue;
    ARROW_ASSIGN_OR_RAISE(const auto projected, Project(*position->batch->batch, schema));
    const auto tombstone = position->batch->batch->GetColumnByName(memwal::kTombstoneColumn);
    if (static_cast<const arrow::BooleanArray&>(*tombstone).Value(position->row)) return nullptr;
    return projected->Slice(position->row, 1);
  }
  if (in_generation != nullptr) {
    return TakeOne(snapshot.sources[in_generation->source].generation->table(),
                   in_generation->address, schema);
  }
  const lance::Table& base = *snapshot.sources.front().base;
  if (base.CountRows() == 0) return nullptr;
  ARROW_ASSIGN_OR_RAISE(const auto address, FindInBase(base, snapshot.key_column, key));
  if (!address) return nullptr;
  return TakeOne(base, *address, schema);
}

}  // namespace sarissa::engine
