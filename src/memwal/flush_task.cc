// The flush side of a shard writer: frozen memtables become generations, strictly in order.
//
// At most one flush task runs at a time, and a generation that fails is retried before any later
// one is looked at: nothing ever reaches the manifest past it (S3, M24).

#include <algorithm>

#include "base/sync_point.h"
#include "memwal/generation_writer.h"
#include "memwal/names.h"
#include "memwal/shard_writer.h"

namespace sarissa::memwal {

void ShardWriter::StartFlushTask() {
  if (flush_task_running_ || frozen_.empty() || frozen_.front().groups_in_flight > 0) return;
  if (state_ == WriterState::kFenced || state_ == WriterState::kFailed || discard_) return;
  flush_task_running_ =
      options_.env->storage->Post([self = shared_from_this()] { self->RunFlushTask(); });
  if (!flush_task_running_) undispatched_ = true;
}

Result<pb::mem_wal::ShardManifest> ShardWriter::FlushGeneration(const MemtableView& rows,
                                                                LogPosition covered) {
  GenerationTarget target;
  target.store = options_.store;
  target.env = options_.env;
  target.shard_prefix = ShardPrefix(options_.table, options_.shard);
  target.storage_schema = &options_.storage_schema;
  target.file_version = options_.file_version;
  target.key_column = key_column_;
  ARROW_ASSIGN_OR_RAISE(const pb::mem_wal::SsTable entry, WriteGeneration(target, rows));

  ShardManifestVersion known;
  {
    const std::scoped_lock lock(mutex_);
    known = ShardManifestVersion(manifest_.version());
  }
  const auto change = [&](pb::mem_wal::ShardManifest& successor) -> Status {
    if (successor.current_generation() != entry.generation()) {
      return Error(ErrorKind::kCorrupt,
                   "shard {}: generation {} cannot follow, the manifest expects {}",
                   options_.shard.ToString(), entry.generation(), successor.current_generation());
    }
    *successor.add_sstables() = entry;
    successor.set_current_generation(entry.generation() + 1);
    successor.set_replay_after_wal_entry_position(
        std::max(successor.replay_after_wal_entry_position(), covered.value()));
    successor.set_wal_entry_position_last_seen(
        std::max(successor.wal_entry_position_last_seen(), covered.value()));
    return Status::OK();
  };
  auto committed = manifests_.Commit(epoch_, known, change);
  if (committed.ok()) SARISSA_SYNC_POINT("flush.after_commit");
  return committed;
}

void ShardWriter::RunFlushTask() {
  std::shared_ptr<Memtable> memtable;
  {
    const std::scoped_lock lock(mutex_);
    const bool stopped =
        state_ == WriterState::kFenced || state_ == WriterState::kFailed || discard_;
    if (stopped || frozen_.empty() || frozen_.front().groups_in_flight > 0) {
      flush_task_running_ = false;
    } else {
      memtable = frozen_.front().memtable;
    }
  }
  if (memtable == nullptr) {
    FinishCloseIfIdle();
    return;
  }
  const MemtableView rows = memtable->View();
  SARISSA_CHECK(rows.rows() > 0, "a memtable without rows is never frozen");
  auto committed = FlushGeneration(rows, memtable->last_position());
  if (!committed.ok()) return RetryFlush(committed.status());

  std::optional<env::Promise<FlushOutcome>> promise;
  {
    const std::scoped_lock lock(mutex_);
    if (manifest_.version() < committed->version()) manifest_ = *committed;
    promise.emplace(std::move(frozen_.front().promise));
    frozen_.pop_front();
    flush_failures_ = 0;
    flush_failing_since_.reset();
    flush_trouble_ = Status::OK();
    flush_task_running_ = false;
    StartFlushTask();
  }
  promise->Set(FlushOutcome{rows.generation(), rows.rows()});
  FailIfUndispatched();
  FinishCloseIfIdle();
}

void ShardWriter::RetryFlush(const Status& cause) {
  const ErrorKind kind = KindOf(cause);
  const bool may_heal = kind == ErrorKind::kUnavailable || kind == ErrorKind::kNoSpace ||
                        kind == ErrorKind::kConflict || kind == ErrorKind::kOverloaded ||
                        kind == ErrorKind::kOutcomeUnknown;
  const env::MonotonicTime now = options_.env->clock->Now();
  env::Duration delay{};
  bool give_up = !may_heal;
  {
    const std::scoped_lock lock(mutex_);
    if (!flush_failing_since_) flush_failing_since_ = now;
    if (now - *flush_failing_since_ >= options_.flush_fail_deadline) give_up = true;
    flush_trouble_ = cause;
    const env::Duration base = std::min(
        options_.flush_retry_delay * (int64_t{1} << std::min<uint64_t>(flush_failures_, 10)),
        options_.flush_retry_delay_max);
    delay = base +
            env::Duration(options_.env->random->Below(static_cast<uint64_t>(base.count()) / 2 + 1));
    ++flush_failures_;
  }
  flush_failures_total_.Add();
  if (!give_up) {
    const env::TimerId timer = options_.env->storage->PostAfter(
        delay, [self = shared_from_this()] { self->RunFlushTask(); });
    if (timer != 0) return;
  }
  {
    const std::scoped_lock lock(mutex_);
    flush_task_running_ = false;
  }
  const bool fenced = kind == ErrorKind::kFenced || kind == ErrorKind::kNotFound;
  Fail(fenced ? cause
              : Error(ErrorKind::kFailedWriter, "the flush of shard {} failed: {}",
                      options_.shard.ToString(), cause.message()));
  // The log task may have failed the writer first; whoever closes waits for this task, too.
  FinishCloseIfIdle();
}

}  // namespace sarissa::memwal
