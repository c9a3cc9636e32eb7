// Which epochs of a shard our own software claimed. A writer of such an epoch reads the epoch again
// after each landed append, before the ack: it needs no sentinel to be stopped (see fence_holds.h).
//
// The record is field 18003 of the shard manifest, closed ranges as pairs (first, last), ascending.
// The claim carries it, so it is durable before the claimer can append, costs no put of its own and
// cannot be lost between two steps. Commits copy it. Other software drops unknown fields when it
// rewrites the manifest: the epochs recorded so far then count as foreign, which keeps too much and
// never too little. It counts only in a manifest whose checksum is there (and was verified when it
// was decoded). Pure functions, thread safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/strong_type.h"
#include "memwal/shard_manifest.h"

namespace sarissa::memwal {

struct EpochRange {
  uint64_t first = 0;
  uint64_t last = 0;  // inclusive
  bool operator==(const EpochRange&) const = default;
};

// Ascending, disjoint. Empty when nothing is recorded or the record cannot be trusted.
std::vector<EpochRange> ClaimedEpochs(const ShardManifest& stored);

// The epochs below the stored one that are not recorded: their writers may be foreign, and alive.
std::vector<EpochRange> ForeignEpochs(const ShardManifest& stored);

// To be called on a claim before it is put: `claim` is the stored manifest with the new epoch set.
void RecordClaimedEpoch(ShardManifest& claim);

}  // namespace sarissa::memwal
