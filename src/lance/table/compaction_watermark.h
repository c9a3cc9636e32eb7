// How far each shard's generations are in a table: the watermarks in the details of the system
// index entry `__lance_mem_wal` (MemWalIndexDetails, field 9).
//
// A commit that raises one rewrites the entry under a fresh uuid, because readers cache the decoded
// details by it, and keeps whatever else it says: how far indexes have caught up (field 10) is for
// those to claim that build them. Functions without state, thread safe.
#pragma once

#include <vector>

#include "base/error.h"
#include "base/uuid.h"
#include "env/env.h"
#include "lance/table/table.h"
#include "proto/lance_mem_wal.pb.h"
#include "proto/lance_table.pb.h"

namespace sarissa::lance {

inline constexpr char kMemWalIndexName[] = "__lance_mem_wal";

// kCorrupt for an id that is no uuid.
Result<ShardId> ShardOf(const pb::mem_wal::CompactedSsTable& entry);
pb::mem_wal::CompactedSsTable ToProto(const CompactedGeneration& compacted);

// Raises the watermarks of the entry among `indices` for table version `version`. kConflict
// ("stale") unless each is above the recorded one; kInvalid when there is no entry or a shard comes
// twice.
Status RaiseWatermarks(const std::vector<CompactedGeneration>& compacted, TableVersion version,
                       const env::Env& env, pb::table::IndexSection& indices);

}  // namespace sarissa::lance
