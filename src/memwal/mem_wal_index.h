// The base table's system index entry `__lance_mem_wal`: says that a table has a MemWAL, and how
// far each shard is merged.
#pragma once

#include <map>
#include <memory>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "env/env.h"
#include "lance/table/compaction_watermark.h"
#include "lance/table/table.h"

namespace sarissa::memwal {

using lance::kMemWalIndexName;

bool HasMemWalIndex(const lance::Table& table);

// Adds the entry (unsharded, spec 1) in a commit of its own unless it is there; losing a race to
// another initialiser is success.
Result<std::shared_ptr<lance::Table>> InitializeMemWal(const std::shared_ptr<lance::Table>& table,
                                                       const env::Env& env);

// Last generation of each shard whose rows are in the base table: generations up to it must not be
// read (M42).
Result<std::map<ShardId, Generation>> MergedGenerations(const lance::Table& table);

}  // namespace sarissa::memwal
