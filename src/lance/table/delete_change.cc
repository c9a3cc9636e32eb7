#include <algorithm>
#include <vector>

#include "lance/table/changes.h"
#include "lance/table/conflict.h"

namespace sarissa::lance {

bool IsEmptied(const pb::table::DataFragment& fragment) {
  return fragment.deletion_file().num_deleted_rows() == fragment.physical_rows();
}

Result<pb::table::DataFragment> WithDeleted(const TableContext& context, const std::string& table,
                                            const pb::table::DataFragment& fragment,
                                            const DeletionVector& current,
                                            std::span<const uint32_t> offsets,
                                            uint64_t read_version) {
  const DeletionVector united = current.Union(offsets);
  pb::table::DataFragment after = fragment;
  if (united.size() == fragment.physical_rows()) {
    // No file: the fragment goes.
    after.mutable_deletion_file()->set_num_deleted_rows(united.size());
  } else if (united.size() > current.size()) {
    ARROW_ASSIGN_OR_RAISE(
        *after.mutable_deletion_file(),
        WriteDeletionVector(*context.store, *context.env->random, table, fragment.id(),
                            read_version, united, DeletionFileTypeFor(united.size())));
  }
  return after;
}

void ReplaceFragments(const std::map<uint64_t, pb::table::DataFragment>& after,
                      pb::table::Manifest& manifest) {
  auto* fragments = manifest.mutable_fragments();
  for (auto& slot : *fragments) {
    if (const auto found = after.find(slot.id()); found != after.end()) slot = found->second;
  }
  const auto first_gone = std::remove_if(
      fragments->begin(), fragments->end(),
      [&](const auto& fragment) { return after.contains(fragment.id()) && IsEmptied(fragment); });
  fragments->erase(first_gone, fragments->end());
}

Status DeleteChange::CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) {
  ARROW_RETURN_NOT_OK(CheckDeleteOver(theirs, version));
  rows_may_have_moved_ = rows_may_have_moved_ || MayMoveRows(theirs);
  return Status::OK();
}

// A row of ours that is deleted now and was not in the base was either deleted (fine) or moved by
// an update: then its new copy would survive us.
Status DeleteChange::CheckNotMoved(const pb::table::DataFragment& fragment,
                                   std::span<const uint32_t> offsets,
                                   const DeletionVector& current) const {
  const auto* before = FindFragment(base_.loaded.manifest, fragment.id());
  ARROW_ASSIGN_OR_RAISE(const auto old, ReadDeletionVector(*context_.store, table_, *before,
                                                           before->physical_rows()));
  for (const uint32_t offset : offsets) {
    if (!current.Contains(offset) || old->Contains(offset)) continue;
    return Error(ErrorKind::kConflict, "row {} of fragment {} was changed by another writer",
                 offset, fragment.id());
  }
  return Status::OK();
}

Result<pb::table::DataFragment> DeleteChange::Updated(const pb::table::DataFragment& fragment,
                                                      std::span<const uint32_t> offsets,
                                                      uint64_t read_version) {
  const std::string before = fragment.SerializeAsString();
  const auto known = outcomes_.find(fragment.id());
  if (known != outcomes_.end() && known->second.before == before && !rows_may_have_moved_)
    return known->second.after;

  ARROW_ASSIGN_OR_RAISE(const auto current, ReadDeletionVector(*context_.store, table_, fragment,
                                                               fragment.physical_rows()));
  if (rows_may_have_moved_) ARROW_RETURN_NOT_OK(CheckNotMoved(fragment, offsets, *current));
  ARROW_ASSIGN_OR_RAISE(auto after,
                        WithDeleted(context_, table_, fragment, *current, offsets, read_version));
  outcomes_[fragment.id()] = Outcome{before, after};
  return after;
}

Status DeleteChange::Apply(const VersionedManifest& newest, LoadedManifest& next,
                           pb::transaction::Transaction& transaction) {
  auto* operation = transaction.mutable_delete_();
  uint64_t rows = 0;
  std::map<uint64_t, pb::table::DataFragment> changed;
  for (const auto& [id, offsets] : offsets_) {
    rows += offsets.size();
    const auto* fragment = FindFragment(newest.loaded.manifest, id);
    if (fragment == nullptr) {
      if (!rows_may_have_moved_) continue;  // deleted to the last row by another
      return Error(ErrorKind::kConflict, "fragment {} was rewritten or removed by another writer",
                   id);
    }
    ARROW_ASSIGN_OR_RAISE(pb::table::DataFragment after,
                          Updated(*fragment, offsets, newest.version.value()));
    if (IsEmptied(after)) {
      operation->add_deleted_fragment_ids(id);
    } else if (after.SerializeAsString() == fragment->SerializeAsString()) {
      continue;
    } else {
      *operation->add_updated_fragments() = after;
    }
    changed[id] = std::move(after);
  }
  operation->set_predicate(fmt::format("_rowaddr IN ({} addresses)", rows));
  ReplaceFragments(changed, next.manifest);
  return Status::OK();
}

}  // namespace sarissa::lance
