// Opening a shard: claim the epoch, fence the predecessor with a sentinel, replay what is in no
// generation yet.
//
// The order matters. The claim alone does not stop a predecessor that is about to append; the
// sentinel takes the slot it would write next, and is put before the replay, so that nothing slips
// in between (M8, M9, M10).

#include "base/sync_point.h"
#include "memwal/generation_writer.h"
#include "memwal/log_validation.h"
#include "memwal/names.h"
#include "memwal/shard_writer.h"
#include "memwal/storage_schema.h"

namespace sarissa::memwal {

namespace {

// Rows or generations without any manifest: the manifests were lost, and with them what is live.
Status CheckNothingWithoutManifest(object_store::ObjectStore& store, const std::string& table,
                                   const ShardId& shard) {
  const std::string prefix = ShardPrefix(table, shard);
  ARROW_ASSIGN_OR_RAISE(const auto log, store.List(LogPrefix(table, shard), {}));
  for (const auto& object : log.objects) {
    const std::string_view name =
        std::string_view(object.name).substr(LogPrefix(table, shard).size());
    if (!ParseRev64(name, ".arrow")) continue;
    return Error(ErrorKind::kCorrupt, "{}: there is {} but no shard manifest", prefix, object.name);
  }
  ARROW_ASSIGN_OR_RAISE(const auto listing, store.List(prefix, {}));
  for (const std::string& folder : listing.folders) {
    if (folder.find("_gen_", prefix.size()) == std::string::npos) continue;
    return Error(ErrorKind::kCorrupt, "{}: there is {} but no shard manifest", prefix, folder);
  }
  return Status::OK();
}

}  // namespace

// Sets manifest_ and epoch_.
Status ShardWriter::TakeClaim(const NewestShardManifest& found) {
  const auto& continued = options_.continue_epoch;
  if (continued && !found.manifest) {
    return Error(ErrorKind::kNotFound, "shard {} was deleted", options_.shard.ToString());
  }
  if (continued && found.manifest->writer_epoch() > continued->value()) {
    return Error(ErrorKind::kFenced, "shard {}: epoch {} owns it, ours is {}",
                 options_.shard.ToString(), found.manifest->writer_epoch(), *continued);
  }
  const bool goes_on = continued && found.manifest->writer_epoch() == continued->value() &&
                       found.taken.value() == found.manifest->version();
  if (goes_on) {
    manifest_ = *found.manifest;
  } else {
    ARROW_ASSIGN_OR_RAISE(manifest_, manifests_.Claim(options_.env->random->Next()));
    SARISSA_SYNC_POINT("claim.after_manifest");
  }
  epoch_ = Epoch(manifest_.writer_epoch());
  return Status::OK();
}

Status ShardWriter::Recover() {
  // Everything that can be refused is refused before the claim: the incumbent, if any, stays
  // untouched, and a store that cannot be opened does not collect epochs and sentinels.
  ARROW_ASSIGN_OR_RAISE(NewestShardManifest found, manifests_.FindNewest());
  LogFindings findings;
  while (found.manifest) {
    const uint64_t lost = found.taken.value() - found.manifest->version();
    const auto before = FindLogExtent(log_, *found.manifest);
    // Another claim may come between; whether it wins shows in ours and in the replay.
    const Epoch highest(found.manifest->writer_epoch() + lost + 1);
    auto looked =
        before.ok() ? ValidateLog(log_, *before, highest) : Result<LogFindings>(before.status());
    if (looked.ok()) {
      findings = *std::move(looked);
      break;
    }
    // A clean-up that ran meanwhile removed what a newer manifest covers.
    ARROW_ASSIGN_OR_RAISE(NewestShardManifest again, manifests_.FindNewest());
    if (again.taken == found.taken) return looked.status();
    found = std::move(again);
  }
  if (!found.manifest) {
    const Status nothing =
        CheckNothingWithoutManifest(*options_.store, options_.table, options_.shard);
    if (!nothing.ok()) {
      ARROW_ASSIGN_OR_RAISE(const NewestShardManifest again, manifests_.FindNewest());
      if (again.taken.value() == 0) return nothing;
      return Error(ErrorKind::kFenced, "shard {} was claimed meanwhile", options_.shard.ToString());
    }
  }
  ARROW_RETURN_NOT_OK(TakeClaim(found));
  const bool claimed = options_.continue_epoch != epoch_;

  const auto extent_found = FindLogExtent(log_, manifest_);
  if (!extent_found.ok()) {
    ARROW_RETURN_NOT_OK(CheckStillOwner());
    return extent_found.status();
  }
  const LogExtent extent = *extent_found;
  LogPosition end = extent.end;
  next_position_ = end;
  const bool sentinel = claimed && (epoch_.value() >= 2 || findings.torn_last);
  if (sentinel) {
    ARROW_ASSIGN_OR_RAISE(end, log_.PutSentinel(epoch_, extent.end, findings.torn_last));
    next_position_ = end.Next();
    SARISSA_SYNC_POINT("claim.after_sentinel");
  }
  if (findings.torn_last && (!sentinel || findings.torn_last->Next() != end)) {
    return Error(ErrorKind::kCorrupt, "{} is torn, and an entry was written after it meanwhile",
                 log_.NameOf(*findings.torn_last));
  }
  recovery_.torn_entry = findings.torn_last;
  passed_over_ = std::move(findings.passed_over);
  active_ = std::make_shared<Memtable>(Generation(manifest_.current_generation()), key_column_);
  const Status replayed = Replay(extent.first, end);
  // A later claimer may have flushed and cleaned up what was being replayed: then this writer's
  // next slot may lie at or below the cursor (R14), and what it replayed says nothing.
  ARROW_RETURN_NOT_OK(CheckStillOwner());
  return replayed;
}

Status ShardWriter::Replay(LogPosition first, LogPosition end) {
  std::optional<Generation> mark;
  for (LogPosition position = first; position < end; position = position.Next()) {
    if (passed_over_.contains(position)) continue;
    ARROW_ASSIGN_OR_RAISE(std::optional<DecodedLogEntry> entry, log_.Read(position));
    if (!entry) {
      return Error(ErrorKind::kUnavailable, "{} was listed and is gone", log_.NameOf(position));
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
  // A recorded generation stays whole, also when today's limits are smaller than those it was
  // written under (M34); entries without a mark are cut by size.
  const bool full =
      active_->bytes() >= options_.memtable_bytes || active_->rows() >= options_.memtable_rows;
  if (full && !entry.generation) ARROW_RETURN_NOT_OK(FlushDuringReplay());
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  int64_t bytes = 0;
  for (const auto& batch : entry.batches) {
    auto aligned = AlignToStorage(*batch, options_.storage_schema);
    if (!aligned.ok()) return Annotate(aligned.status(), name);
    bytes += PinnedBytes(**aligned);
    batches.push_back(*std::move(aligned));
  }
  ++recovery_.replayed_entries;
  for (const auto& batch : batches) {
    recovery_.replayed_rows += static_cast<uint64_t>(batch->num_rows());
    bytes += batch->num_rows() * kIndexBytesPerRow;
  }
  active_->Insert(batches, position, 0,
                  options_.env->budget->Force(bytes, env::MemoryUse::kMemtables),
                  options_.env->clock->Now());
  return Status::OK();
}

Status ShardWriter::FlushDuringReplay() {
  ARROW_ASSIGN_OR_RAISE(manifest_, FlushGeneration(active_->View(), active_->last_position()));
  active_ = std::make_shared<Memtable>(Generation(manifest_.current_generation()), key_column_);
  return Status::OK();
}

}  // namespace sarissa::memwal
