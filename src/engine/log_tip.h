// What a shard's log holds beyond its generations, without opening the table.
#pragma once

#include <string>

#include "base/error.h"
#include "base/uuid.h"
#include "object_store/object_store.h"

namespace sarissa::engine {

// True when entries are above the replay cursor: rows that an earlier process acknowledged and that
// are in no generation. False where the shard does not exist. kCorrupt when the log has a hole.
// Blocks; a few reads.
Result<bool> LogHasUnflushedRows(object_store::ObjectStore& store, const std::string& table,
                                 const ShardId& shard);

}  // namespace sarissa::engine
