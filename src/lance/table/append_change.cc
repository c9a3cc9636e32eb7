#include <limits>

#include "lance/table/changes.h"
#include "lance/table/conflict.h"

namespace sarissa::lance {

Status AppendChange::CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) {
  if (mode_ == CommitMode::kOnlyOnThisVersion) {
    return Error(ErrorKind::kConflict, "version {} was committed by another writer ({})", version,
                 OperationName(theirs));
  }
  return CheckAppendOver(theirs, version);
}

Status AddFragments(const std::vector<pb::table::DataFragment>& fragments,
                    pb::table::Manifest& manifest) {
  if (((manifest.reader_feature_flags() | manifest.writer_feature_flags()) & kFlagStableRowIds) !=
      0) {
    return Error(ErrorKind::kUnsupported,
                 "appending to a table with stable row ids (feature flag 2)");
  }
  const auto max_id = MaxFragmentId(manifest);
  uint64_t next_id = max_id ? *max_id + 1 : 0;
  if (next_id + fragments.size() > std::numeric_limits<uint32_t>::max()) {
    return Error(ErrorKind::kUnsupported, "a table with more than 2^32 fragments");
  }
  for (const auto& fragment : fragments) {
    auto* added = manifest.add_fragments();
    *added = fragment;
    added->set_id(next_id++);
  }
  return Status::OK();
}

Status AppendChange::Apply(const VersionedManifest&, LoadedManifest& next,
                           pb::transaction::Transaction& transaction) {
  ARROW_RETURN_NOT_OK(AddFragments(fragments_, next.manifest));
  auto* append = transaction.mutable_append();
  for (const auto& fragment : fragments_) *append->add_fragments() = fragment;
  return Status::OK();
}

}  // namespace sarissa::lance
