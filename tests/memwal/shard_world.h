// A shard over a memory store with faults, on real threads: what the tests of the shard writer
// stand on.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/sync_point.h"
#include "env/posix/posix_env.h"
#include "lance/table/table.h"
#include "memwal/names.h"
#include "memwal/shard_writer.h"
#include "object_store/fault_store.h"
#include "object_store/memory_store.h"
#include "tests/memwal/rows.h"

namespace sarissa::memwal {

using object_store::FaultAction;
using object_store::FaultRule;
using object_store::StoreOperation;
using testing::KeyedRows;
using testing::KeyedStorage;
using testing::StorageBatch;

inline constexpr env::Duration kWait = std::chrono::seconds(60);

// Holds whoever comes to a sync point until Open.
class Gate {
 public:
  // Lets `first_passes` passages through.
  explicit Gate(const std::string& point, int first_passes = 0) : free_passes_(first_passes) {
    SyncPoints::Instance().Arm(point, [this] { Pass(); });
  }
  ~Gate() { Open(); }
  void AwaitArrival() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(change_.wait_for(lock, kWait, [this] { return arrived_ > 0; }));
  }
  void Open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    change_.notify_all();
  }

 private:
  void Pass() {
    std::unique_lock lock(mutex_);
    if (free_passes_-- > 0) return;
    ++arrived_;
    change_.notify_all();
    change_.wait(lock, [this] { return open_; });
  }

  std::mutex mutex_;
  std::condition_variable change_;
  int free_passes_;
  int arrived_ = 0;
  bool open_ = false;
};

class ShardWorld : public ::testing::Test {
 protected:
  ~ShardWorld() override { SyncPoints::Instance().Clear(); }

  ShardOptions Options() {
    ShardOptions options;
    options.store = &store_;
    options.env = &posix_.env();
    options.table = "t";
    options.shard = shard_;
    options.storage_schema = KeyedStorage();
    options.log_retry_delay = std::chrono::milliseconds(1);
    options.flush_retry_delay = std::chrono::milliseconds(1);
    options.flush_retry_delay_max = std::chrono::milliseconds(5);
    return options;
  }
  std::shared_ptr<ShardWriter> Open() { return ShardWriter::Open(Options()).ValueOrDie(); }

  static env::Future<AppendResult> Append(ShardWriter& writer, const KeyedRows& rows) {
    return writer.Append({StorageBatch(rows)}, {});
  }
  static Status AppendAndWait(ShardWriter& writer, const KeyedRows& rows) {
    return Append(writer, rows).Wait(kWait).status();
  }
  Result<FlushOutcome> SealAndWait(ShardWriter& writer) {
    return writer.Seal().Wait(*posix_.env().storage).Wait(kWait);
  }

  // Newest value per key over generations and memtables.
  std::map<std::string, int64_t> Rows(ShardWriter& writer) {
    std::map<std::string, int64_t> rows;
    const ShardView view = writer.View();
    for (const auto& generation : view.generations) {
      const std::string folder = ShardPrefix("t", shard_) + generation.path();
      const auto table = lance::Table::Open({&store_, &posix_.env()}, folder).ValueOrDie();
      auto stream = table->Scan({}).ValueOrDie();
      while (const auto batch = stream->Next().ValueOrDie()) {
        const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(0));
        const auto& values = static_cast<const arrow::Int64Array&>(*batch->column(1));
        for (int64_t row = 0; row < batch->num_rows(); ++row)
          rows[ids.GetString(row)] = values.Value(row);
      }
    }
    for (const auto& memtable : view.memtables) {
      for (const auto& [key, value] : testing::Visible(memtable)) rows[key] = value;
    }
    return rows;
  }
  std::vector<LogPosition> LogPositions() {
    return ShardLog(store_, "t", shard_).List().ValueOrDie();
  }
  ShardManifest Manifest() {
    return *ShardManifestStore(store_, "t", shard_).ReadNewest().ValueOrDie();
  }

  const ShardId shard_ = ShardId::FromName("default");
  object_store::MemoryStore memory_;
  object_store::FaultStore store_{memory_};
  env::PosixEnv posix_;
};

}  // namespace sarissa::memwal
