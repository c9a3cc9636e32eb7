// The shard manifest: the durable state of one shard, as immutable versions that are created by
// put-if-absent.
//
// Rules
//  1. Versions are dense from 1. A version is written once and never replaced (S2); losing the race
//  is kConflict, and the
//     loser re-reads.
//  2. Only the holder of the stored epoch commits; a higher stored epoch is kFenced.
//  3. The hint file is only a hint: a missing, stale or garbled one never hides the newest version.
//  4. A manifest of ours carries a CRC32C as its last field; one without (the original drops it) is
//  unverified, not refused.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "object_store/object_store.h"
#include "proto/lance_mem_wal.pb.h"

namespace sarissa::memwal {

using pb::mem_wal::ShardManifest;

std::string EncodeShardManifest(const ShardManifest& manifest);
// kCorrupt names the object and what is wrong (zero bytes, not a manifest, wrong version, wrong
// checksum).
Result<ShardManifest> DecodeShardManifest(const std::string& name, const arrow::Buffer& bytes,
                                          ShardManifestVersion version);

// The newest state of a shard that can be read, and what lies above it.
struct NewestShardManifest {
  // Nothing when the shard has no manifest, or none but zero-byte ones.
  std::optional<ShardManifest> manifest;
  // The highest version that is taken. Above manifest's version only by objects of zero bytes: what
  // power loss leaves of a manifest that was never synced (other software does not). Whether that
  // lost anything is for the log to say.
  ShardManifestVersion taken;
};

// The manifests of one shard. Thread safe (stateless besides its names); calls block on the store.
class ShardManifestStore {
 public:
  ShardManifestStore(object_store::ObjectStore& store, std::string table, ShardId shard)
      : store_(store), table_(std::move(table)), shard_(shard) {}

  // The newest manifest, or nothing when the shard has none. `known` is a version that exists for
  // sure (0 = none known): the search starts there instead of listing.
  // Zero-byte manifests above the newest whole one are passed over; any other damage is kCorrupt.
  Result<std::optional<ShardManifest>> ReadNewest(ShardManifestVersion known = {}) const;
  Result<NewestShardManifest> FindNewest(ShardManifestVersion known = {}) const;
  // kCorrupt when a zero-byte version lies above the manifest of `found`: it may have been another
  // writer's claim, and only a claim of our own may go past it.
  Status CheckNothingAbove(const NewestShardManifest& found) const;
  Result<std::optional<ShardManifest>> Read(ShardManifestVersion version) const;
  Result<bool> Exists(ShardManifestVersion version) const;

  // Writes `manifest` as its own version; kConflict when that version exists. An answer that was
  // lost is settled by reading the version back. The hint follows, best effort.
  Status Put(const ShardManifest& manifest) const;
  // OK once `manifest`, which was read, cannot be lost any more. What can be read need not be
  // durable: its writer may be before its sync, or have failed there, and a power loss then brings
  // back the version below. To be asked before anything is made durable elsewhere, or removed, on
  // the strength of a manifest.
  Status CheckDurable(const ShardManifest& manifest) const;

  // Claims the shard: the newest manifest with the epoch raised by one (and by one more for each
  // zero-byte version above it, which may have been a claim), or version 1 with epoch 1. `nonce` is
  // random: two claims that are otherwise equal must not be taken for each other after a lost
  // answer. kFenced when another writer claims at the same time and wins, kInvalid when the shard
  // is sealed.
  Result<ShardManifest> Claim(uint64_t nonce) const;

  // Commits the successor of the newest manifest that `change` makes of it, as long as the stored
  // epoch is `epoch`: kFenced otherwise. `change` edits everything but version and epoch.
  Result<ShardManifest> Commit(Epoch epoch, ShardManifestVersion known,
                               const std::function<Status(ShardManifest&)>& change) const;

 private:
  Result<ShardManifestVersion> ListNewest() const;
  Result<std::optional<NewestShardManifest>> TryFindNewest(ShardManifestVersion known) const;

  object_store::ObjectStore& store_;
  std::string table_;
  ShardId shard_;
};

}  // namespace sarissa::memwal
