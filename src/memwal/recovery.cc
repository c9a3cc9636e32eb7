// Opening a shard: claim the epoch, fence the predecessor with a sentinel, replay what is in no
// generation yet.
//
// The order matters. The claim alone does not stop a predecessor that is about to append; the
// sentinel takes the slot it would write next, and is put before the replay, so that nothing slips
// in between (M8, M9, M10).

#include <algorithm>

#include "base/sync_point.h"
#include "memwal/generation_writer.h"
#include "memwal/names.h"
#include "memwal/shard_writer.h"
#include "memwal/storage_schema.h"

namespace sarissa::memwal {

// Log positions are dense: what is above the replay cursor must have no hole, or an acknowledged
// entry is missing.
Result<LogPosition> ShardWriter::FirstFreePosition() {
  ARROW_ASSIGN_OR_RAISE(const std::vector<LogPosition> present, log_.List());
  const uint64_t replayed = manifest_.replay_after_wal_entry_position();
  uint64_t expected = replayed + 1;
  for (const LogPosition position : present) {
    if (position.value() <= replayed) continue;
    if (position.value() != expected) {
      return Error(ErrorKind::kCorrupt,
                   "{}: log entry {} is missing below entry {}; refusing to replay around a hole",
                   LogPrefix(options_.table, options_.shard), expected, position);
    }
    ++expected;
  }
  if (epoch_.value() == 1 && !present.empty()) {
    return Error(ErrorKind::kCorrupt, "{}: there are {} log entries but the shard has no manifest",
                 LogPrefix(options_.table, options_.shard), present.size());
  }
  // A clean-up may have removed the log up to the cursor; positions are never reused.
  return LogPosition(std::max(expected, manifest_.wal_entry_position_last_seen() + 1));
}

Status ShardWriter::Recover() {
  // A manifest that cannot be read, or a log with a hole, must not be claimed: the incumbent, if
  // any, stays untouched.
  ARROW_ASSIGN_OR_RAISE(const auto before, manifests_.ReadNewest());
  if (before) {
    manifest_ = *before;
    ARROW_RETURN_NOT_OK(FirstFreePosition().status());
  }
  ARROW_ASSIGN_OR_RAISE(manifest_, manifests_.Claim());
  epoch_ = Epoch(manifest_.writer_epoch());
  SARISSA_SYNC_POINT("claim.after_manifest");

  const LogPosition first(manifest_.replay_after_wal_entry_position() + 1);
  ARROW_ASSIGN_OR_RAISE(LogPosition tip, FirstFreePosition());
  if (epoch_.value() >= 2) {
    ARROW_ASSIGN_OR_RAISE(const LogPosition sentinel, log_.PutSentinel(epoch_, tip));
    tip = sentinel;
    next_position_ = sentinel.Next();
    SARISSA_SYNC_POINT("claim.after_sentinel");
  } else {
    next_position_ = tip;
  }
  active_ = std::make_shared<Memtable>(Generation(manifest_.current_generation()), key_column_);
  return Replay(first, tip);
}

Status ShardWriter::Replay(LogPosition first, LogPosition end) {
  std::optional<Generation> mark;
  for (LogPosition position = first; position < end; position = position.Next()) {
    ARROW_ASSIGN_OR_RAISE(std::optional<DecodedLogEntry> entry, log_.Read(position));
    if (!entry) {
      // Positions between the log's end and `last_seen` of a cleaned log.
      continue;
    }
    ARROW_RETURN_NOT_OK(ReplayEntry(position, *std::move(entry), mark));
  }
  return Status::OK();
}

Status ShardWriter::ReplayEntry(LogPosition position, DecodedLogEntry entry,
                                std::optional<Generation>& mark) {
  const std::string name = LogEntryName(options_.table, options_.shard, position);
  if (entry.epoch > epoch_) {
    return Error(ErrorKind::kFenced, "{} was written by epoch {}, ours is {}", name, entry.epoch,
                 epoch_);
  }
  if (entry.sentinel || entry.batches.empty()) return Status::OK();
  if (entry.generation) {
    if (mark && *entry.generation < *mark) {
      return Error(ErrorKind::kCorrupt,
                   "{} has generation {} below generation {} that was replayed before it", name,
                   *entry.generation, *mark);
    }
    // The marks are boundaries; the numbers come from the manifest, because another writer may have
    // flushed some of them.
    if (mark && *entry.generation > *mark && active_->rows() > 0)
      ARROW_RETURN_NOT_OK(FlushDuringReplay());
    mark = entry.generation;
  }
  const bool full =
      active_->bytes() >= options_.memtable_bytes || active_->rows() >= options_.memtable_rows;
  if (full) ARROW_RETURN_NOT_OK(FlushDuringReplay());
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  int64_t bytes = 0;
  for (const auto& batch : entry.batches) {
    auto aligned = AlignToStorage(*batch, options_.storage_schema);
    if (!aligned.ok()) return Annotate(aligned.status(), name);
    bytes += PinnedBytes(**aligned);
    batches.push_back(*std::move(aligned));
  }
  active_->Insert(batches, position, 0, options_.env->budget->Force(bytes),
                  options_.env->clock->Now());
  return Status::OK();
}

Status ShardWriter::FlushDuringReplay() {
  ARROW_ASSIGN_OR_RAISE(manifest_, FlushGeneration(active_->View(), active_->last_position()));
  active_ = std::make_shared<Memtable>(Generation(manifest_.current_generation()), key_column_);
  return Status::OK();
}

}  // namespace sarissa::memwal
