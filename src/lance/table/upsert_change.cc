#include <set>

#include "lance/table/changes.h"
#include "lance/table/compaction_watermark.h"
#include "lance/table/conflict.h"

namespace sarissa::lance {

Status UpsertChange::CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) {
  std::set<uint64_t> fragments;
  for (const auto& [id, offsets] : deleted_) fragments.insert(id);
  std::set<ShardId> shards;
  for (const CompactedGeneration& compacted : compacted_) shards.insert(compacted.shard);
  return CheckUpsertOver(theirs, version, fragments, shards);
}

Status UpsertChange::DeleteRows(const VersionedManifest& newest) {
  for (const auto& [id, offsets] : deleted_) {
    const auto* before = FindFragment(base_.loaded.manifest, id);
    const auto* fragment = FindFragment(newest.loaded.manifest, id);
    // No operation that passed the check does this; a foreign one that says less than it did might.
    if (fragment == nullptr || fragment->SerializeAsString() != before->SerializeAsString()) {
      return Error(ErrorKind::kConflict, "fragment {} was changed by another writer", id);
    }
    if (after_.contains(id)) continue;
    ARROW_ASSIGN_OR_RAISE(const auto current, ReadDeletionVector(*context_.store, table_, *fragment,
                                                                 fragment->physical_rows()));
    ARROW_ASSIGN_OR_RAISE(after_[id], WithDeleted(context_, table_, *fragment, *current, offsets,
                                                  base_.version.value()));
  }
  return Status::OK();
}

Status UpsertChange::Apply(const VersionedManifest& newest, LoadedManifest& next,
                           pb::transaction::Transaction& transaction) {
  auto* operation = transaction.mutable_update();
  // First: a stale merge must not cost a write.
  if (!compacted_.empty()) {
    ARROW_RETURN_NOT_OK(
        RaiseWatermarks(compacted_, newest.version.Next(), *context_.env, next.indices));
  }
  for (const CompactedGeneration& compacted : compacted_)
    *operation->add_compacted_sstables() = ToProto(compacted);

  // Before fragments go: an id is never given again.
  ARROW_RETURN_NOT_OK(AddFragments(added_, next.manifest));
  for (const auto& fragment : added_) *operation->add_new_fragments() = fragment;
  ARROW_RETURN_NOT_OK(DeleteRows(newest));
  for (const auto& [id, fragment] : after_) {
    if (IsEmptied(fragment)) {
      operation->add_removed_fragment_ids(id);
    } else {
      *operation->add_updated_fragments() = fragment;
    }
  }
  ReplaceFragments(after_, next.manifest);
  // Whole rows are new, so no index covers them by its fields being untouched.
  for (const auto& field : schema_.fields())
    operation->add_fields_for_preserving_frag_bitmap(static_cast<uint32_t>(field.id));
  return Status::OK();
}

}  // namespace sarissa::lance
