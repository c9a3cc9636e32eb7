#include "memwal/shard_writer.h"

#include <algorithm>

#include "base/sync_point.h"
#include "memwal/generation_writer.h"
#include "memwal/names.h"
#include "memwal/storage_schema.h"

namespace sarissa::memwal {
namespace {

int KeyColumnOf(const lance::Schema& schema) {
  const auto key = schema.PrimaryKey();
  SARISSA_CHECK(key.size() == 1, "a table has exactly one primary key column, this one {}",
                key.size());
  const int column = schema.arrow_schema()->GetFieldIndex(key.front());
  SARISSA_CHECK(column >= 0, "the key column {} is a top-level column", key.front());
  return column;
}

}  // namespace

// What one log entry holds: whole appends, bound to the memtable that was active when the group was
// taken.
struct ShardWriter::Group {
  std::vector<QueuedAppend> appends;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::shared_ptr<Memtable> memtable;
  LogPosition position;
  LogEntryHeader header;
  int attempts = 0;
  bool may_have_landed = false;
};

ShardWriter::ShardWriter(ShardOptions options)
    : options_(std::move(options)),
      key_column_(KeyColumnOf(options_.storage_schema)),
      manifests_(*options_.store, options_.table, options_.shard),
      log_(*options_.store, options_.table, options_.shard) {}

// Promises that are still held complete as cancelled when they are destroyed.
ShardWriter::~ShardWriter() = default;

Result<std::shared_ptr<ShardWriter>> ShardWriter::Open(ShardOptions options) {
  if (options.memtable_bytes <= 0 || options.memtable_rows <= 0) {
    return Error(ErrorKind::kInvalid, "memtable_bytes and memtable_rows must be positive");
  }
  std::shared_ptr<ShardWriter> writer(new ShardWriter(std::move(options)));
  ARROW_RETURN_NOT_OK(writer->Recover());
  return writer;
}

bool ShardWriter::AcceptsLocked() const {
  return state_ == WriterState::kActive;
}

env::Future<AppendResult> ShardWriter::Append(
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches, env::Reservation charge) {
  QueuedAppend append;
  append.bytes = 0;
  for (const auto& batch : batches) append.bytes += PinnedBytes(*batch);
  append.batches = std::move(batches);
  append.charge = std::move(charge);
  env::Future<AppendResult> future = append.promise.future();

  const std::scoped_lock lock(mutex_);
  if (!AcceptsLocked()) {
    const Status refused =
        cause_.ok() ? Error(ErrorKind::kCancelled, "shard {} is closing", options_.shard.ToString())
                    : cause_;
    return env::Future<AppendResult>::Ready(refused);
  }
  queue_.push_back(std::move(append));
  StartLogTask();
  return future;
}

void ShardWriter::StartLogTask() {
  if (log_task_running_ || queue_.empty()) return;
  log_task_running_ = true;
  options_.env->storage->Post([self = shared_from_this()] { self->RunLogTask(); });
}

std::shared_ptr<ShardWriter::Group> ShardWriter::TakeGroup() {
  auto group = std::make_shared<Group>();
  int64_t bytes = 0;
  while (!queue_.empty() &&
         (group->appends.empty() || bytes + queue_.front().bytes <= kGroupBytes)) {
    bytes += queue_.front().bytes;
    group->appends.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  for (const auto& append : group->appends) {
    group->batches.insert(group->batches.end(), append.batches.begin(), append.batches.end());
  }
  group->memtable = active_;
  group->position = next_position_;
  group->header = {epoch_, active_->generation(), options_.env->random->Next()};
  ++active_groups_in_flight_;
  return group;
}

void ShardWriter::RunLogTask() {
  std::shared_ptr<Group> group;
  {
    const std::scoped_lock lock(mutex_);
    if (queue_.empty() || state_ == WriterState::kFenced || state_ == WriterState::kFailed) {
      log_task_running_ = false;
    } else {
      group = TakeGroup();
    }
  }
  if (group == nullptr) {
    FinishCloseIfIdle();
    return;
  }
  AttemptGroup(group);
}

void ShardWriter::AttemptGroup(const std::shared_ptr<Group>& group) {
  const ShardLog::Attempt attempt = log_.Append(group->position, group->header, group->batches);
  switch (attempt.outcome) {
    case ShardLog::Outcome::kLanded: {
      const Status owner = CheckStillOwner();
      if (!owner.ok()) return FailGroup(group, owner);
      return FinishGroup(group);
    }
    case ShardLog::Outcome::kTaken: {
      const Status owner = CheckStillOwner();
      if (!owner.ok()) return FailGroup(group, owner);
      return FailGroup(group, Error(ErrorKind::kFailedWriter,
                                    "log entry {} of shard {} was written by somebody else",
                                    group->position, options_.shard.ToString()));
    }
    case ShardLog::Outcome::kUnproven:
      group->may_have_landed = true;
      return RetryGroup(group, attempt.cause);
    case ShardLog::Outcome::kAbsent:
      return RetryGroup(group, attempt.cause);
    case ShardLog::Outcome::kUnknown:
      return FailGroup(
          group, Error(ErrorKind::kOutcomeUnknown,
                       "log entry {} of shard {} may or may not be durable: {}", group->position,
                       options_.shard.ToString(), attempt.cause.message()));
  }
}

// The log lies: before anything is acknowledged the epoch is read again, because an entry that
// landed below a successor's sentinel is in the log but no longer ours to confirm, and one that
// landed in a deleted shard is nobody's (S8, W21).
Status ShardWriter::CheckStillOwner() {
  ShardManifestVersion known;
  {
    const std::scoped_lock lock(mutex_);
    known = ShardManifestVersion(manifest_.version());
  }
  ARROW_ASSIGN_OR_RAISE(const bool present, manifests_.Exists(known));
  if (!present)
    return Error(ErrorKind::kNotFound, "shard {} was deleted", options_.shard.ToString());
  ARROW_ASSIGN_OR_RAISE(const bool newer, manifests_.Exists(known.Next()));
  if (!newer) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(const auto newest, manifests_.ReadNewest(known));
  if (newest && newest->writer_epoch() == epoch_.value()) return Status::OK();
  return Error(ErrorKind::kFenced, "shard {}: epoch {} owns it, ours is {}",
               options_.shard.ToString(), newest ? newest->writer_epoch() : 0, epoch_);
}

void ShardWriter::RetryGroup(const std::shared_ptr<Group>& group, const Status& cause) {
  const ErrorKind kind = KindOf(cause);
  const bool may_heal = kind == ErrorKind::kUnavailable || kind == ErrorKind::kOutcomeUnknown;
  if (!may_heal || group->attempts >= options_.log_retries) {
    // Nothing landed, so the same position stays free and the memory is not ahead of the log: a
    // full disk or a wrong batch refuses this group only. A store that stays silent, or a sync that
    // failed, ends the writer.
    if (group->may_have_landed) {
      return FailGroup(group, Error(ErrorKind::kOutcomeUnknown,
                                    "log entry {} of shard {} may or may not be durable: {}",
                                    group->position, options_.shard.ToString(), cause.message()));
    }
    const bool refused = kind == ErrorKind::kNoSpace || kind == ErrorKind::kInvalid ||
                         kind == ErrorKind::kOverloaded;
    if (refused) return FailGroup(group, cause);
    return FailGroup(group,
                     Error(ErrorKind::kFailedWriter, "the log of shard {} cannot be written: {}",
                           options_.shard.ToString(), cause.message()));
  }
  const env::Duration base =
      options_.log_retry_delay * (int64_t{1} << std::min(group->attempts, 6));
  const auto jitter =
      env::Duration(options_.env->random->Below(static_cast<uint64_t>(base.count()) / 2 + 1));
  ++group->attempts;
  const env::TimerId timer = options_.env->storage->PostAfter(
      base + jitter, [self = shared_from_this(), group] { self->AttemptGroup(group); });
  if (timer == 0) FailGroup(group, Error(ErrorKind::kCancelled, "the process is stopping"));
}

void ShardWriter::FinishGroup(const std::shared_ptr<Group>& group) {
  SARISSA_SYNC_POINT("log.before_insert");
  const env::MonotonicTime now = options_.env->clock->Now();
  uint32_t first_row = 0;
  for (auto& append : group->appends) {
    uint32_t rows = 0;
    for (const auto& batch : append.batches) rows += static_cast<uint32_t>(batch->num_rows());
    group->memtable->Insert(append.batches, group->position, first_row, std::move(append.charge),
                            now);
    first_row += rows;
  }
  {
    const std::scoped_lock lock(mutex_);
    next_position_ = group->position.Next();
    if (group->memtable == active_) {
      --active_groups_in_flight_;
      FreezeIfFull();
    } else {
      for (Frozen& frozen : frozen_) {
        if (frozen.memtable == group->memtable) --frozen.groups_in_flight;
      }
      StartFlushTask();
    }
    if (queue_.empty()) {
      log_task_running_ = false;
    } else {
      options_.env->storage->Post([self = shared_from_this()] { self->RunLogTask(); });
    }
  }
  SARISSA_SYNC_POINT("log.before_ack");
  for (auto& append : group->appends) append.promise.Set(AppendResult{group->position, epoch_});
  FinishCloseIfIdle();
}

void ShardWriter::FailGroup(const std::shared_ptr<Group>& group, const Status& error) {
  const ErrorKind kind = KindOf(error);
  const bool only_this_group =
      kind == ErrorKind::kNoSpace || kind == ErrorKind::kInvalid || kind == ErrorKind::kOverloaded;
  {
    const std::scoped_lock lock(mutex_);
    if (group->memtable == active_) {
      --active_groups_in_flight_;
    } else {
      for (Frozen& frozen : frozen_) {
        if (frozen.memtable == group->memtable) --frozen.groups_in_flight;
      }
      StartFlushTask();
    }
    if (only_this_group && !queue_.empty()) {
      options_.env->storage->Post([self = shared_from_this()] { self->RunLogTask(); });
    } else {
      log_task_running_ = false;
    }
  }
  if (!only_this_group) Fail(error);
  for (auto& append : group->appends) append.promise.Set(error);
  FinishCloseIfIdle();
}

void ShardWriter::Freeze() {
  Frozen frozen;
  frozen.memtable = active_;
  frozen.groups_in_flight = active_groups_in_flight_;
  active_ = std::make_shared<Memtable>(active_->generation().Next(), key_column_);
  active_groups_in_flight_ = 0;
  frozen_.push_back(std::move(frozen));
  StartFlushTask();
}

void ShardWriter::FreezeIfFull() {
  if (!AcceptsLocked() && state_ != WriterState::kClosing) return;
  if (active_->bytes() < options_.memtable_bytes && active_->rows() < options_.memtable_rows)
    return;
  Freeze();
}

SealFence ShardWriter::Seal() {
  const std::scoped_lock lock(mutex_);
  if (state_ == WriterState::kFenced || state_ == WriterState::kFailed)
    return SealFence(std::nullopt, {}, cause_);
  std::optional<Generation> sealed;
  if (active_->rows() > 0) {
    sealed = active_->generation();
    Freeze();
  }
  std::vector<env::Future<FlushOutcome>> outcomes;
  outcomes.reserve(frozen_.size());
  for (const Frozen& frozen : frozen_) outcomes.push_back(frozen.promise.future());
  return SealFence(sealed, std::move(outcomes), Status::OK());
}

void ShardWriter::StartFlushTask() {
  if (flush_task_running_ || frozen_.empty() || frozen_.front().groups_in_flight > 0) return;
  if (state_ == WriterState::kFenced || state_ == WriterState::kFailed || discard_) return;
  flush_task_running_ = true;
  options_.env->storage->Post([self = shared_from_this()] { self->RunFlushTask(); });
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
    const env::Duration base =
        std::min(options_.flush_retry_delay * (int64_t{1} << std::min(flush_failures_, 10)),
                 options_.flush_retry_delay_max);
    delay = base +
            env::Duration(options_.env->random->Below(static_cast<uint64_t>(base.count()) / 2 + 1));
    ++flush_failures_;
  }
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
}

void ShardWriter::Fail(const Status& cause) {
  std::deque<QueuedAppend> refused;
  std::vector<env::Promise<FlushOutcome>> unflushed;
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == WriterState::kFenced || state_ == WriterState::kFailed ||
        state_ == WriterState::kClosed)
      return;
    const ErrorKind kind = KindOf(cause);
    const bool not_ours = kind == ErrorKind::kFenced || kind == ErrorKind::kNotFound;
    state_ = not_ours ? WriterState::kFenced : WriterState::kFailed;
    cause_ = kind == ErrorKind::kOutcomeUnknown ? WithKind(cause, ErrorKind::kFailedWriter) : cause;
    refused.swap(queue_);
    for (Frozen& frozen : frozen_)
      unflushed.push_back(std::exchange(frozen.promise, env::Promise<FlushOutcome>()));
  }
  for (auto& append : refused) append.promise.Set(status());
  for (auto& promise : unflushed) promise.Set(status());
  FinishCloseIfIdle();
}

ShardView ShardWriter::View() const {
  const std::scoped_lock lock(mutex_);
  ShardView view;
  if (state_ == WriterState::kFenced) {
    view.owned = false;
    return view;
  }
  view.generations.assign(manifest_.sstables().begin(), manifest_.sstables().end());
  for (const Frozen& frozen : frozen_) view.memtables.push_back(frozen.memtable->View());
  view.memtables.push_back(active_->View());
  return view;
}

WriterState ShardWriter::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

Status ShardWriter::status() const {
  const std::scoped_lock lock(mutex_);
  return cause_;
}

Status ShardWriter::flush_trouble() const {
  const std::scoped_lock lock(mutex_);
  return flush_trouble_;
}

std::optional<env::MonotonicTime> ShardWriter::oldest_unflushed() const {
  const std::scoped_lock lock(mutex_);
  if (!frozen_.empty()) return frozen_.front().memtable->first_insert();
  return active_->first_insert();
}

env::Future<CloseReport> ShardWriter::Close(CloseMode mode) {
  {
    const std::scoped_lock lock(mutex_);
    if (mode == CloseMode::kDiscard) discard_ = true;
    if (close_future_.valid()) return close_future_;
    close_promise_.emplace();
    close_future_ = close_promise_->future();
    if (state_ == WriterState::kActive) state_ = WriterState::kClosing;
  }
  FinishCloseIfIdle();
  return close_future_;
}

// Called after every step: the last one to end closes.
void ShardWriter::FinishCloseIfIdle() {
  std::optional<env::Promise<CloseReport>> promise;
  CloseReport report;
  {
    const std::scoped_lock lock(mutex_);
    if (!close_promise_) return;
    const bool broken = state_ == WriterState::kFenced || state_ == WriterState::kFailed;
    if (log_task_running_ || (!queue_.empty() && !broken)) return;
    const bool flushes = !broken && !discard_;
    if (flushes && active_->rows() > 0) Freeze();
    if (flush_task_running_ || (flushes && !frozen_.empty())) return;
    for (const Frozen& frozen : frozen_)
      report.only_in_log.push_back(frozen.memtable->generation());
    if (active_->rows() > 0) report.only_in_log.push_back(active_->generation());
    if (!broken) state_ = WriterState::kClosed;
    promise = std::exchange(close_promise_, std::nullopt);
  }
  promise->Set(std::move(report));
}

}  // namespace sarissa::memwal
