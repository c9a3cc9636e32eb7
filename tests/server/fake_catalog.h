// An engine in memory for the tests of the HTTP side: rows are kept as batches, newest wins,
// appends can be held or failed.
#pragma once

#include <arrow/array/array_binary.h>
#include <arrow/array/concatenate.h>
#include <arrow/record_batch.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/catalog.h"
#include "rollout/record_schema.h"

namespace sarissa::server {

class FakeTable final : public engine::Table {
 public:
  explicit FakeTable(std::string name) : name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  TableVersion version() const override { return TableVersion(2); }
  Result<TableVersion> Checkout(std::optional<TableVersion> version) override {
    const TableVersion wanted = version.value_or(TableVersion(2));
    if (wanted.value() == 0 || wanted > TableVersion(2)) {
      return Error(ErrorKind::kNotFound, "there is no version {}", wanted);
    }
    return wanted;
  }
  const std::shared_ptr<arrow::Schema>& schema() const override { return rollout::RecordSchema(); }

  env::Future<engine::AppendReceipt> Append(
      std::vector<std::shared_ptr<arrow::RecordBatch>> batches, env::Reservation charge) override {
    const std::scoped_lock lock(mutex_);
    if (!append_error_.ok()) return env::Future<engine::AppendReceipt>::Ready(append_error_);
    for (const auto& batch : batches) {
      for (int64_t i = 0; i < batch->num_rows(); ++i) rows_.push_back(batch->Slice(i, 1));
    }
    charges_.Merge(std::move(charge));
    held_.emplace_back();
    const auto future = held_.back().future();
    if (!hold_) CompleteLocked();
    return future;
  }

  env::Future<engine::FlushReport> Flush() override {
    const std::scoped_lock lock(mutex_);
    if (!flush_error_.ok()) return env::Future<engine::FlushReport>::Ready(flush_error_);
    engine::FlushReport report;
    if (!rows_.empty()) report.sealed_generation = Generation(1);
    report.rows = rows_.size();
    return env::Future<engine::FlushReport>::Ready(report);
  }

  Result<std::unique_ptr<lance::BatchStream>> Scan(const engine::ReadOptions& options) override;
  Result<std::shared_ptr<arrow::RecordBatch>> Get(
      std::string_view key, const std::optional<std::vector<std::string>>& columns) override;

  void HoldAppends() {
    const std::scoped_lock lock(mutex_);
    hold_ = true;
  }
  void ReleaseAppends() {
    const std::scoped_lock lock(mutex_);
    hold_ = false;
    CompleteLocked();
  }
  void FailAppends(Status error) {
    const std::scoped_lock lock(mutex_);
    append_error_ = std::move(error);
  }
  void FailFlush(Status error) {
    const std::scoped_lock lock(mutex_);
    flush_error_ = std::move(error);
  }
  // The scan gives this error in place of its batch number `batch`.
  void FailScanAt(int batch, Status error) {
    const std::scoped_lock lock(mutex_);
    scan_fails_at_ = batch;
    scan_error_ = std::move(error);
  }
  size_t row_count() const {
    const std::scoped_lock lock(mutex_);
    return rows_.size();
  }
  int64_t charged() const {
    const std::scoped_lock lock(mutex_);
    return charges_.bytes();
  }

 private:
  void CompleteLocked() {
    for (auto& promise : held_)
      promise.Set(engine::AppendReceipt{TableVersion(2), ShardId(), LogPosition(1)});
    held_.clear();
  }

  const std::string name_;
  mutable std::mutex mutex_;
  bool hold_ = false;
  Status append_error_;
  Status flush_error_;
  int scan_fails_at_ = -1;
  Status scan_error_;
  std::vector<env::Promise<engine::AppendReceipt>> held_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> rows_;  // one row each
  env::Reservation charges_;
};

inline Result<std::shared_ptr<arrow::RecordBatch>> SelectColumns(
    const std::shared_ptr<arrow::RecordBatch>& batch,
    const std::optional<std::vector<std::string>>& columns) {
  if (!columns.has_value()) return batch;
  std::vector<int> indices;
  for (const std::string& name : *columns) indices.push_back(batch->schema()->GetFieldIndex(name));
  return batch->SelectColumns(indices);
}

class FakeStream final : public lance::BatchStream {
 public:
  FakeStream(std::vector<std::shared_ptr<arrow::RecordBatch>> batches, int fails_at, Status error)
      : batches_(std::move(batches)), fails_at_(fails_at), error_(std::move(error)) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return rollout::RecordSchema(); }
  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    if (static_cast<int>(next_) == fails_at_) return error_;
    if (next_ == batches_.size()) return nullptr;
    return batches_[next_++];
  }

 private:
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
  const int fails_at_;
  const Status error_;
  size_t next_ = 0;
};

inline Result<std::unique_ptr<lance::BatchStream>> FakeTable::Scan(
    const engine::ReadOptions& options) {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<arrow::RecordBatch>> chosen;
  uint64_t skip = options.offset;
  for (const auto& row : rows_) {
    std::vector<uint8_t> keep(1, 1);
    if (options.filter != nullptr) ARROW_RETURN_NOT_OK(options.filter->Evaluate(*row, keep));
    if (keep[0] == 0) continue;
    if (skip > 0) {
      --skip;
      continue;
    }
    if (options.limit.has_value() && chosen.size() >= *options.limit) break;
    ARROW_ASSIGN_OR_RAISE(auto selected, SelectColumns(row, options.columns));
    chosen.push_back(std::move(selected));
  }
  return std::make_unique<FakeStream>(std::move(chosen), scan_fails_at_, scan_error_);
}

inline Result<std::shared_ptr<arrow::RecordBatch>> FakeTable::Get(
    std::string_view key, const std::optional<std::vector<std::string>>& columns) {
  const std::scoped_lock lock(mutex_);
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
    const auto& ids = static_cast<const arrow::StringArray&>(*(*row)->column(rollout::kId));
    if (ids.GetView(0) == key) return SelectColumns(*row, columns);
  }
  return nullptr;
}

class FakeCatalog final : public engine::Catalog {
 public:
  using TableFuture = env::Future<std::shared_ptr<engine::Table>>;
  using UnitFuture = env::Future<env::Unit>;

  TableFuture Create(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    auto [entry, made] = tables_.emplace(name, nullptr);
    if (!made)
      return TableFuture::Ready(Error(ErrorKind::kAlreadyExists, "store '{}' exists", name));
    entry->second = std::make_shared<FakeTable>(name);
    return TableFuture::Ready(std::shared_ptr<engine::Table>(entry->second));
  }
  TableFuture Find(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    const auto found = tables_.find(name);
    if (found == tables_.end())
      return TableFuture::Ready(Error(ErrorKind::kNotFound, "store '{}' is not registered", name));
    return TableFuture::Ready(std::shared_ptr<engine::Table>(found->second));
  }
  Result<engine::TablePage> List(const engine::ListRequest& request) override {
    const std::scoped_lock lock(mutex_);
    engine::TablePage page;
    for (const auto& [name, table] : tables_) {
      if (!name.starts_with(request.prefix) || name <= request.start_after) continue;
      page.more = request.limit > 0 && page.tables.size() == request.limit;
      if (page.more) break;
      page.tables.push_back({name, UriOf(name), 0});
    }
    return page;
  }
  UnitFuture Delete(const std::string& name) override {
    const std::scoped_lock lock(mutex_);
    if (tables_.erase(name) == 1) return UnitFuture::Ready(env::Unit{});
    return UnitFuture::Ready(Error(ErrorKind::kNotFound, "store '{}' is not registered", name));
  }
  std::string UriOf(const std::string& name) const override {
    return "./data/" + name + ".rollout.lance";
  }
  uint64_t open_tables() const override {
    const std::scoped_lock lock(mutex_);
    return tables_.size();
  }
  engine::CatalogHealth Health() const override {
    const std::scoped_lock lock(mutex_);
    return health_;
  }
  void set_health(engine::CatalogHealth health) {
    const std::scoped_lock lock(mutex_);
    health_ = std::move(health);
  }
  engine::CatalogStatus Describe() const override {
    const std::scoped_lock lock(mutex_);
    engine::CatalogStatus status;
    status.tables = status.resident = tables_.size();
    status.health = health_;
    return status;
  }
  UnitFuture Evict(const std::string&, env::Duration) override {
    return UnitFuture::Ready(env::Unit{});
  }
  Status Close(env::Duration) override { return Status::OK(); }

  FakeTable& table(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    return *tables_.at(name);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<FakeTable>> tables_;
  engine::CatalogHealth health_;
};

}  // namespace sarissa::server
