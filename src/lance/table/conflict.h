// Which commits of others a commit of ours may be rebased over. Pure functions, thread safe.
//
// An operation that is unknown, or that may have changed what ours was computed from, is a
// conflict: the caller reads the table again and decides anew.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "base/error.h"
#include "base/strong_type.h"
#include "base/uuid.h"
#include "proto/lance_table.pb.h"
#include "proto/lance_transaction.pb.h"

namespace sarissa::lance {

// "append", "delete", "rewrite" ...; "unknown operation" for one that this project has no name for.
std::string OperationName(const pb::transaction::Transaction& transaction);

// Each is OK or kConflict naming both operations and `version`, the one that `theirs` made.
Status CheckAppendOver(const pb::transaction::Transaction& theirs, TableVersion version);
// What a delete still has to compare by itself: its fragments and the rows that others deleted (see
// delete_change.cc).
Status CheckDeleteOver(const pb::transaction::Transaction& theirs, TableVersion version);
// True if `theirs` may have moved or changed rows rather than only removed them.
bool MayMoveRows(const pb::transaction::Transaction& theirs);
// An upsert that deletes rows of `fragments` and raises the watermarks of `shards`. Rows that
// another update inserted may have keys that ours inserts, too.
Status CheckUpsertOver(const pb::transaction::Transaction& theirs, TableVersion version,
                       const std::set<uint64_t>& fragments, const std::set<ShardId>& shards);
// `covers_fragments`: one of the new entries claims fragments, so what happened to their rows
// matters.
Status CheckIndicesOver(const pb::transaction::Transaction& theirs, TableVersion version,
                        bool covers_fragments);

}  // namespace sarissa::lance
