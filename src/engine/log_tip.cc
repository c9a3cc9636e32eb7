#include "engine/log_tip.h"

#include "memwal/log_validation.h"
#include "memwal/shard_log.h"
#include "memwal/shard_manifest.h"

namespace sarissa::engine {

Result<bool> LogHasUnflushedRows(object_store::ObjectStore& store, const std::string& table,
                                 const ShardId& shard) {
  const memwal::ShardManifestStore manifests(store, table, shard);
  memwal::ShardLog log(store, table, shard);
  ARROW_ASSIGN_OR_RAISE(auto manifest, manifests.ReadNewest());
  while (manifest) {
    // The whole log above the cursor is looked at: a hole is an acknowledged row that is gone, and
    // must not read as "nothing there".
    const auto extent = memwal::FindLogExtent(log, *manifest);
    if (extent.ok()) return extent->first < extent->end;
    // A clean-up by another process may have run in between.
    const uint64_t version = manifest->version();
    ARROW_ASSIGN_OR_RAISE(manifest, manifests.ReadNewest(ShardManifestVersion(version)));
    if (manifest && manifest->version() == version) return extent.status();
  }
  return false;
}

}  // namespace sarissa::engine
