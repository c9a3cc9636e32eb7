// Commits: builds the next manifest on the newest one and puts it if its name is free, again and
// again.
//
// Per attempt: find the newest version (a manifest of an old version may be gone, so its number
// alone does not tell which name is next), check the transactions of all versions since the base,
// apply the change, put `_transactions/...txn`, put the manifest if absent. A put whose outcome is
// unknown is settled by reading the name back and comparing transaction uuids. Functions block on
// the store. Thread safe.
#pragma once

#include <cstdint>
#include <string>

#include "lance/table/manifest.h"
#include "lance/table/table.h"

namespace sarissa::lance {

// What one commit does, independent of the version it lands on. Used by one thread at a time.
class TableChange {
 public:
  virtual ~TableChange() = default;
  // kConflict if the change cannot go on top of `theirs`, which made `version`, later than the
  // base.
  virtual Status CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) = 0;
  // Turns `next`, a copy of `newest`, into the new content and fills in the transaction's
  // operation. Called once per attempt. Version, flags, timestamp and names are not its business.
  virtual Status Apply(const VersionedManifest& newest, LoadedManifest& next,
                       pb::transaction::Transaction& transaction) = 0;
};

inline constexpr int kMaxRebases = 16;

// kConflict: not rebasable, or out of attempts. kOutcomeUnknown: the manifest may have landed, and
// the store does not say.
Result<VersionedManifest> Commit(const TableContext& context, const std::string& table,
                                 const VersionedManifest& base, TableChange& change);

// Puts `manifest` as version 1 of a table that has none. kAlreadyExists if the name is taken by
// another.
Result<VersionedManifest> CommitFirst(const TableContext& context, const std::string& table,
                                      LoadedManifest manifest);

// Puts the bare transaction as `_transactions/<name>`.
Status WriteTransactionFile(object_store::ObjectStore& store, const std::string& table,
                            const std::string& name,
                            const pb::transaction::Transaction& transaction);
std::string TransactionFileName(
    const pb::transaction::Transaction& transaction);  // "<read version>-<uuid>.txn"
// Best effort: the hint is only a hint, so a failure is not the commit's.
void WriteVersionHint(object_store::ObjectStore& store, const std::string& table,
                      TableVersion version);

// Sets feature flags, timestamp, writer and max_fragment_id from the content of `manifest`.
void StampManifest(const env::Env& env, pb::table::Manifest& manifest);
// The highest fragment id ever used; nothing for a table that never had a fragment.
std::optional<uint64_t> MaxFragmentId(const pb::table::Manifest& manifest);

}  // namespace sarissa::lance
