// What the files of one shard must satisfy at any moment at which a process could start on them,
// read without the engine's writer.
//
//  - Shard manifests are dense from the lowest kept to the newest and whole; epoch, cursor and
//    generation never fall from one to the next (C7, S2, S3).
//  - Every generation that the newest manifest names opens (S7).
//  - The log is dense from the cursor to its tip, and whole; epochs never fall with the position
//    (C7). Below the cursor a clean-up removes entries, in an order that a crash may undo.
//  - An acknowledged append is in the very entry that its answer named, while that entry is kept
//    (S1); entries above the cursor are kept.
//  - The rows of every acknowledged append at or below the cursor, or newer ones, are in the base
//    or in a generation (C8).
//
// Reads block on `store`: under a scheduler, call it inside a task.
#pragma once

#include <string>

#include "env/env.h"
#include "lance/table/table.h"
#include "object_store/object_store.h"
#include "tests/simulation/expectations.h"

namespace sarissa::simulation {

// All rows of a stream; kInternal when a key comes twice (C3).
Result<Shown> ReadRows(lance::BatchStream& stream);

// OK, or kInternal with what is wrong. A table or shard that is not there yet is fine as long as
// nothing in it was acknowledged.
Status AuditShard(object_store::ObjectStore& store, const env::Env& env, const std::string& table,
                  const std::string& instance_id, const Expectations& expectations);

}  // namespace sarissa::simulation
