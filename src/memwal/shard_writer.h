// The one live writer of one shard: log, memtables, flushes. A state machine without a thread of
// its own: whoever completes a step posts the next one to the storage executor.
//
// States
//   kActive   appends are accepted. Entered by Open.
//   kFenced   a higher epoch owns the shard. Entered by the log task or the flush task; nothing
//             leaves it. Never acknowledges, serves nothing of its own (View has no memtables: the
//             new owner's state counts).
//   kFailed   the log may be lost (an append whose outcome stays unknown) or a flush failed for
//             good. Entered by either task; only a reopen heals. Rows that are in the log stay
//             readable.
//   kClosing  Close was called: no new appends, queued ones finish, everything is flushed. From
//             kActive only.
//   kClosed   the end of kClosing.
//
// The way of a row: Append queues it; when no log task runs, one starts at once, takes what is
// queued (up to kGroupBytes), writes one log entry, re-reads the epoch, inserts into the memtable,
// completes the appends. Nothing waits for a timer.
//
// Lock order: the shard's lock, then a memtable's. Neither is held across I/O or while a promise is
// completed.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "env/env.h"
#include "env/future.h"
#include "lance/file/file_version.h"
#include "lance/file/schema.h"
#include "memwal/memtable.h"
#include "memwal/seal_fence.h"
#include "memwal/shard_log.h"
#include "memwal/shard_manifest.h"
#include "object_store/object_store.h"

namespace sarissa::memwal {

// A log entry is cut here, so that one slow client does not hold up a group.
inline constexpr int64_t kGroupBytes = 4 << 20;

struct ShardOptions {
  object_store::ObjectStore* store = nullptr;
  const env::Env* env = nullptr;
  std::string table;  // path of the base table
  ShardId shard;
  lance::Schema storage_schema;  // see storage_schema.h
  lance::FileVersion file_version = lance::kFileV21;
  // A memtable is frozen when it reaches either.
  int64_t memtable_bytes = 64 << 20;
  int64_t memtable_rows = 100'000;
  // Retries of one log append at the same position, first delay (doubling, jittered).
  int log_retries = 3;
  env::Duration log_retry_delay = std::chrono::milliseconds(50);
  // Back-off of a failing flush, and how long it may fail before the shard is failed.
  env::Duration flush_retry_delay = std::chrono::milliseconds(200);
  env::Duration flush_retry_delay_max = std::chrono::seconds(5);
  env::Duration flush_fail_deadline = std::chrono::seconds(60);
  // The epoch of a writer of this process that was closed cleanly: while the manifest still shows
  // it, the claim goes on without a new epoch and without a sentinel; a higher one is kFenced.
  std::optional<Epoch> continue_epoch;
};

enum class CloseMode {
  kFlush,    // everything that is in the log ends in a generation
  kDiscard,  // only what is running ends: the table is about to be deleted
};

enum class WriterState { kActive, kFenced, kFailed, kClosing, kClosed };

struct AppendResult {
  LogPosition position;
  Epoch epoch;
};

// One consistent look at the shard: generations and memtables together hold every acknowledged row
// exactly where it is.
struct ShardView {
  // False when the writer was fenced: the caller reads the shard from disk, as it does with foreign
  // shards.
  bool owned = true;
  std::vector<pb::mem_wal::SsTable> generations;  // ascending
  std::vector<MemtableView> memtables;  // ascending by generation: frozen ones, then the active one
};

struct CloseReport {
  // Generations whose rows are durable only in the log; empty after a clean close.
  std::vector<Generation> only_in_log;
  // Why they are: the fence, the failure, or kDeadline with the trouble of the flush. OK after a
  // clean close and after kDiscard.
  Status cause;
};

// What an operator wants to know of a shard.
struct ShardHealth {
  WriterState state = WriterState::kActive;
  Status cause;                 // of kFenced and kFailed
  Status flush_trouble;         // set while the oldest frozen memtable's flush keeps failing
  uint64_t flush_failures = 0;  // failed attempts since the last flush that landed
  uint64_t frozen_generations = 0;
  int64_t unflushed_bytes = 0;  // memory of frozen and active memtables
};

// What the open found.
struct RecoveryReport {
  uint64_t replayed_entries = 0;
  uint64_t replayed_rows = 0;
  // A last entry that ends before its stream does: a write that was never acknowledged. It stays
  // where it is and is passed over.
  std::optional<LogPosition> torn_entry;
};

class ShardWriter : public std::enable_shared_from_this<ShardWriter> {
 public:
  // Claims the shard, writes a sentinel when there may be a predecessor, replays the log. Blocks.
  // kFenced: another writer claimed meanwhile. kCorrupt: the log cannot be replayed; nothing was
  // deleted.
  static Result<std::shared_ptr<ShardWriter>> Open(ShardOptions options);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Batches have the storage schema and at least one row. They become durable and visible together.
  env::Future<AppendResult> Append(std::vector<std::shared_ptr<arrow::RecordBatch>> batches,
                                   env::Reservation charge);

  // Freezes the active memtable if it has rows.
  SealFence Seal();

  ShardView View() const;

  WriterState state() const;
  // Why appends are refused; OK while they are not.
  Status status() const;
  // Age reference of the oldest row that is in no generation.
  std::optional<env::MonotonicTime> oldest_unflushed() const;
  ShardHealth Health() const;
  const RecoveryReport& recovery() const { return recovery_; }
  Epoch epoch() const { return epoch_; }
  const ShardId& shard() const { return options_.shard; }

  // Finishes queued appends, flushes everything (kFlush). Completes with the report, also when the
  // flush failed. After it no task of this writer touches the store, except when `deadline` (0 =
  // none but the flush's own) ended the wait: then a call that hangs in the store may still end
  // later.
  env::Future<CloseReport> Close(CloseMode mode = CloseMode::kFlush, env::Duration deadline = {});

 private:
  struct QueuedAppend {
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    env::Reservation charge;
    int64_t bytes = 0;
    env::Promise<AppendResult> promise;
  };
  struct Frozen {
    std::shared_ptr<Memtable> memtable;
    env::Promise<FlushOutcome> promise;
    int groups_in_flight = 0;  // log groups that will still insert into it
  };
  struct Group;

  explicit ShardWriter(ShardOptions options);

  // --- recovery.cc
  Status Recover();
  Status TakeClaim(const NewestShardManifest& found);
  Status Replay(LogPosition first, LogPosition end);
  Status ReplayEntry(LogPosition position, DecodedLogEntry entry, std::optional<Generation>& mark);
  Status FlushDuringReplay();

  // --- log_task.cc: at most one at a time, on the storage executor
  void StartLogTask();  // lock held
  void RunLogTask();
  void AttemptGroup(const std::shared_ptr<Group>& group);
  void Acknowledge(const std::shared_ptr<Group>& group);
  void RetryGroup(const std::shared_ptr<Group>& group, const Status& cause);
  Status CheckStillOwner();
  void ReleaseGroup(const Group& group);  // lock held
  void FinishGroup(const std::shared_ptr<Group>& group);
  void FailGroup(const std::shared_ptr<Group>& group, const Status& error);
  std::shared_ptr<Group> TakeGroup();  // lock held

  // --- flush_task.cc: at most one at a time, on the storage executor
  void StartFlushTask();  // lock held
  void RunFlushTask();
  void RetryFlush(const Status& cause);
  Result<pb::mem_wal::ShardManifest> FlushGeneration(const MemtableView& rows, LogPosition covered);

  void Freeze();        // lock held; the active memtable has rows or groups in flight
  void FreezeIfFull();  // lock held
  // Enters kFenced or kFailed once; later causes are ignored. Completes whatever waits.
  void Fail(const Status& cause);
  // An executor that has stopped takes no task: whoever waits for one must hear of it. Called after
  // every step that may have started a task, without the lock.
  void FailIfUndispatched();
  bool AcceptsLocked() const;
  void FinishCloseIfIdle();
  void EndCloseAtDeadline();
  CloseReport MakeCloseReport();  // lock held

  const ShardOptions options_;
  const int key_column_;
  ShardManifestStore manifests_;
  ShardLog log_;
  Epoch epoch_;
  RecoveryReport recovery_;
  std::set<LogPosition> passed_over_;  // torn entries that lost nothing; used by the replay
  env::Counter& log_retries_;
  env::Counter& flush_failures_total_;
  env::Counter& fenced_writers_;
  env::Counter& failed_writers_;

  mutable std::mutex mutex_;
  WriterState state_ = WriterState::kActive;
  Status cause_;                         // of kFenced and kFailed
  pb::mem_wal::ShardManifest manifest_;  // newest that we wrote or saw
  LogPosition next_position_{1};
  std::deque<QueuedAppend> queue_;
  bool log_task_running_ = false;
  std::shared_ptr<Memtable> active_;
  int active_groups_in_flight_ = 0;
  std::deque<Frozen> frozen_;  // oldest first
  bool flush_task_running_ = false;
  uint64_t flush_failures_ = 0;
  std::optional<env::MonotonicTime> flush_failing_since_;
  Status flush_trouble_;
  bool discard_ = false;  // closing without a flush
  bool undispatched_ = false;
  std::optional<env::Promise<CloseReport>> close_promise_;
  env::Future<CloseReport> close_future_;
};

}  // namespace sarissa::memwal
