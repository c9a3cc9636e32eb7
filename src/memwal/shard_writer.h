// The one live writer of one shard: log, memtables, flushes. A state machine without a thread of
// its own: whoever completes a step posts the next one to the storage executor.
//
// States
//   kActive   appends are accepted. Entered by Open.
//   kFenced   a higher epoch owns the shard. Entered by the log task or the flush task; nothing
//   leaves it. Never
//             acknowledges, serves nothing of its own (View has no memtables: the new owner's state
//             counts).
//   kFailed   the log may be lost (an append whose outcome stays unknown) or a flush failed for
//   good. Entered by either task;
//             only a reopen heals. Rows that are in the log stay readable.
//   kClosing  Close was called: no new appends, queued ones finish, everything is flushed. From
//   kActive only. kClosed   the end of kClosing.
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
  // Rows that are durable only in the log because their flush failed; empty after a clean close.
  std::vector<Generation> only_in_log;
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
  // Set while the oldest frozen memtable's flush keeps failing.
  Status flush_trouble() const;
  Epoch epoch() const { return epoch_; }
  const ShardId& shard() const { return options_.shard; }

  // Finishes queued appends, flushes everything (kFlush). Completes with the report, also when the
  // flush failed. After it no task of this writer touches the store.
  env::Future<CloseReport> Close(CloseMode mode = CloseMode::kFlush);

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
  Status Replay(LogPosition first, LogPosition end);
  Status ReplayEntry(LogPosition position, DecodedLogEntry entry, std::optional<Generation>& mark);
  Status FlushDuringReplay();
  Result<LogPosition> FirstFreePosition();

  // --- log task: at most one at a time, on the storage executor
  void StartLogTask();  // lock held
  void RunLogTask();
  void AttemptGroup(const std::shared_ptr<Group>& group);
  void RetryGroup(const std::shared_ptr<Group>& group, const Status& cause);
  Status CheckStillOwner();
  void FinishGroup(const std::shared_ptr<Group>& group);
  void FailGroup(const std::shared_ptr<Group>& group, const Status& error);
  std::shared_ptr<Group> TakeGroup();  // lock held

  // --- flush task: at most one at a time, on the storage executor
  void StartFlushTask();  // lock held
  void RunFlushTask();
  void RetryFlush(const Status& cause);
  Result<pb::mem_wal::ShardManifest> FlushGeneration(const MemtableView& rows, LogPosition covered);

  void Freeze();        // lock held; the active memtable has rows or groups in flight
  void FreezeIfFull();  // lock held
  // Enters kFenced or kFailed once; later causes are ignored. Completes whatever waits.
  void Fail(const Status& cause);
  bool AcceptsLocked() const;
  void FinishCloseIfIdle();

  const ShardOptions options_;
  const int key_column_;
  ShardManifestStore manifests_;
  ShardLog log_;
  Epoch epoch_;

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
  int flush_failures_ = 0;
  std::optional<env::MonotonicTime> flush_failing_since_;
  Status flush_trouble_;
  bool discard_ = false;  // closing without a flush
  std::optional<env::Promise<CloseReport>> close_promise_;
  env::Future<CloseReport> close_future_;
};

}  // namespace sarissa::memwal
