// Brings the registry, the disk and the dirty set together after a start, in the background.
//
// One walk over the names that are on disk or registered, in ascending order:
//   - a table without a row gets one; what a stopped create left, without a version, is removed,
//   - a row without files is reported and kept: only its owner can say what it was,
//   - while the dirty set may lack marks, the tip of each table's log is looked at, and a table
//     with rows in no generation is marked, so that the sweeper flushes it.
// What looks wrong is looked at again after `settle`, for it may be a create or a delete that was
// under way. The look at the log tips is bounded in rate, and after a restart it goes on where the
// last one stopped: its place is in `_sarissa/<instance>/reconciliation`. When the walk has ended
// nothing of it is left.
//
// Thread safe. One task at a time runs on the storage executor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/uuid.h"
#include "engine/catalog.h"
#include "engine/dirty_set.h"
#include "engine/registry.h"
#include "env/env.h"
#include "object_store/object_store.h"

namespace sarissa::engine {

struct ReconciliationOptions {
  object_store::ObjectStore* store = nullptr;
  const env::Env* env = nullptr;
  std::shared_ptr<Registry> registry;
  std::shared_ptr<DirtySet> dirty;
  std::string instance_id;
  std::string registry_path;
  std::string table_suffix;
  // The row of a table that has none.
  std::function<TableInfo(const std::string& name)> new_row;
  // Log tips looked at; at least 1.
  uint64_t tables_per_second = 2000;
  env::Duration settle = std::chrono::seconds(10);
  size_t slice = 256;           // names that one task looks at
  uint64_t place_every = 4096;  // log tips between two notes of the place
};

class Reconciliation : public std::enable_shared_from_this<Reconciliation> {
 public:
  explicit Reconciliation(ReconciliationOptions options);

  void Start();
  // After it nothing new begins.
  void Stop();
  ReconciliationStatus status() const;

 private:
  static constexpr uint64_t kProgressEvery = 20000;  // names between two lines in the log
  static constexpr size_t kTold = 20;                // tables of one kind that are named in the log
  static constexpr env::Duration kRetryDelay = std::chrono::seconds(30);

  using Step = void (Reconciliation::*)();
  void Next(Step step, env::Duration delay = {});
  void Begin();
  void Walk();
  void FinishWalk();
  void LookAgain();
  void Finish();
  void Fail(const Status& status);

  Status ListNames();
  void Look(const std::string& name, bool* looked_at_tip);
  std::optional<env::Future<env::Unit>> MarkIfUnflushed(const TableInfo& info);
  void LookAgainAt(const std::string& name);
  Status CheckRows();
  Status RemoveHalfMade(const std::string& path);
  void ReadPlace();
  void WritePlace();
  void Count(uint64_t ReconciliationStatus::* what, uint64_t by = 1);
  void Tell(env::EventLog::Level level, std::string_view event, const std::string& name,
            const Status& status, uint64_t told);
  std::string PathOf(const std::string& name) const { return name + options_.table_suffix; }

  const ReconciliationOptions options_;
  const ShardId shard_;
  const std::string place_name_;

  // Used by the running task only.
  bool look_at_tips_ = false;
  std::vector<std::string> names_;  // on disk, ascending
  size_t next_ = 0;
  std::string place_;  // tips up to this name were looked at
  size_t noted_ = 0;   // names below it are behind the place that was noted last
  uint64_t names_since_progress_ = 0;
  struct WalkMark {
    size_t name = 0;  // place in names_
    env::Future<env::Unit> mark;
  };
  std::vector<WalkMark> marks_;
  std::vector<std::string> suspects_;

  mutable std::mutex mutex_;  // leaf
  bool stopped_ = false;
  env::TimerId timer_ = 0;
  ReconciliationStatus status_;
};

}  // namespace sarissa::engine
