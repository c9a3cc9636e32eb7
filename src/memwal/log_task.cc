// The log side of a shard writer: groups queued appends into entries, settles what a failed or
// silent put came to, and acknowledges.
//
// At most one log task runs at a time, so positions are used in order. A group is acknowledged only
// when its entry landed and the epoch, read again afterwards, is still ours.

#include <algorithm>

#include "base/sync_point.h"
#include "memwal/shard_writer.h"

namespace sarissa::memwal {

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
  bool landed = false;
};

void ShardWriter::StartLogTask() {
  if (log_task_running_ || queue_.empty()) return;
  log_task_running_ =
      options_.env->storage->Post([self = shared_from_this()] { self->RunLogTask(); });
  if (!log_task_running_) undispatched_ = true;
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
  if (group->landed) return Acknowledge(group);
  ShardLog::Attempt attempt = log_.Append(group->position, group->header, group->batches);
  switch (attempt.outcome) {
    case ShardLog::Outcome::kLanded:
      group->landed = true;
      return Acknowledge(group);
    case ShardLog::Outcome::kTaken: {
      const Status owner = CheckStillOwner();
      if (!owner.ok()) return FailGroup(group, owner);
      // The sentinel of an opener that was stalled since before our claim: it fences nobody that
      // lives, and the slot above it is as good.
      const auto there = log_.Read(group->position);
      if (there.ok() && *there && (*there)->sentinel && (*there)->epoch < epoch_) {
        group->position = group->position.Next();
        return AttemptGroup(group);
      }
      return FailGroup(group, Error(ErrorKind::kFailedWriter,
                                    "log entry {} of shard {} was written by somebody else",
                                    group->position, options_.shard.ToString()));
    }
    // Our bytes are there, or the store does not say. The next attempt meets them and settles it.
    case ShardLog::Outcome::kUnproven:
    case ShardLog::Outcome::kUnknown:
      group->may_have_landed = true;
      return RetryGroup(group, attempt.cause);
    case ShardLog::Outcome::kAbsent:
      return RetryGroup(group, attempt.cause);
  }
}

// The entry is durable. It is ours to confirm only while the shard is.
void ShardWriter::Acknowledge(const std::shared_ptr<Group>& group) {
  const Status owner = CheckStillOwner();
  if (owner.ok()) return FinishGroup(group);
  const ErrorKind kind = KindOf(owner);
  // Where the shard was deleted, and perhaps made again, the entry must not lie in wait for the
  // next opener. Best effort: a crash here leaves an entry without a manifest, which an open
  // refuses.
  if (kind == ErrorKind::kNotFound) (void)options_.store->Delete(log_.NameOf(group->position));
  if (kind == ErrorKind::kFenced || kind == ErrorKind::kNotFound) {
    // Below the successor's sentinel the entry is replayed by it; this writer cannot tell.
    return FailGroup(group, Annotate(owner, "the rows may or may not be kept by the new owner"));
  }
  group->may_have_landed = true;
  RetryGroup(group, owner);
}

// Before anything is acknowledged the epoch is read again, because an entry that landed below a
// successor's sentinel is in the log but no longer ours to confirm, one that landed where a
// sentinel was cleaned up is replayed by nobody, and one that landed in a deleted shard is nobody's
// (S8).
Status ShardWriter::CheckStillOwner() {
  ShardManifestVersion known;
  {
    const std::scoped_lock lock(mutex_);
    known = ShardManifestVersion(manifest_.version());
  }
  // In this order: manifests are removed in ascending order, so where the newer one came and went
  // ours is gone, too.
  ARROW_ASSIGN_OR_RAISE(const bool newer, manifests_.Exists(known.Next()));
  if (!newer) {
    ARROW_ASSIGN_OR_RAISE(const bool present, manifests_.Exists(known));
    if (present) return Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(const NewestShardManifest found, manifests_.FindNewest(known));
  const auto& newest = found.manifest;
  if (found.taken.value() == 0)
    return Error(ErrorKind::kNotFound, "shard {} was deleted", options_.shard.ToString());
  ARROW_RETURN_NOT_OK(manifests_.CheckNothingAbove(found));
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
  log_retries_.Add();
  const env::TimerId timer = options_.env->storage->PostAfter(
      base + jitter, [self = shared_from_this(), group] { self->AttemptGroup(group); });
  if (timer == 0) FailGroup(group, Error(ErrorKind::kCancelled, "the process is stopping"));
}

void ShardWriter::ReleaseGroup(const Group& group) {
  if (group.memtable == active_) {
    --active_groups_in_flight_;
    return;
  }
  for (Frozen& frozen : frozen_) {
    if (frozen.memtable == group.memtable) --frozen.groups_in_flight;
  }
  StartFlushTask();
}

void ShardWriter::FinishGroup(const std::shared_ptr<Group>& group) {
  SARISSA_SYNC_POINT("log.before_insert");
  const env::MonotonicTime now = options_.env->clock->Now();
  uint32_t first_row = 0;
  for (auto& append : group->appends) {
    uint32_t rows = 0;
    for (const auto& batch : append.batches) rows += static_cast<uint32_t>(batch->num_rows());
    append.charge.Merge(options_.env->budget->Force(rows * kIndexBytesPerRow));
    group->memtable->Insert(append.batches, group->position, first_row, std::move(append.charge),
                            now);
    first_row += rows;
  }
  {
    const std::scoped_lock lock(mutex_);
    next_position_ = group->position.Next();
    ReleaseGroup(*group);
    FreezeIfFull();
    log_task_running_ = false;
    StartLogTask();
  }
  SARISSA_SYNC_POINT("log.before_ack");
  for (auto& append : group->appends) append.promise.Set(AppendResult{group->position, epoch_});
  FailIfUndispatched();
  FinishCloseIfIdle();
}

void ShardWriter::FailGroup(const std::shared_ptr<Group>& group, const Status& error) {
  const ErrorKind kind = KindOf(error);
  const bool only_this_group =
      kind == ErrorKind::kNoSpace || kind == ErrorKind::kInvalid || kind == ErrorKind::kOverloaded;
  {
    const std::scoped_lock lock(mutex_);
    ReleaseGroup(*group);
    log_task_running_ = false;
    if (only_this_group) StartLogTask();
  }
  if (!only_this_group) Fail(error);
  FailIfUndispatched();
  for (auto& append : group->appends) append.promise.Set(error);
  FinishCloseIfIdle();
}

}  // namespace sarissa::memwal
