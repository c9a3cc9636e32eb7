// The merge of a shard's oldest generations into the base table. A library: whoever schedules it
// calls it on the storage executor.
//
// One merge
//  1. drains what an earlier merge committed and could not drain any more;
//  2. takes the oldest generations above the base's watermark, as many as the limits let;
//  3. finds the newest row of each of their keys (newest_rows.h) and the rows of the base with such
//     a key, by a scan of the base's key column;
//  4. writes the newest rows that are no tombstones into new fragments, in arrival order:
//  generation
//     by generation, row by row (S13);
//  5. commits deleted rows, new fragments and the watermark in one commit;
//  6. drains: takes the merged generations out of the shard manifest, with the stored epoch. It
//     claims nothing, so the shard's live writer goes on. The replay cursor stays.
//
// Readers skip generations up to the watermark of the base that they read (M42), so every step may
// be the last: before 5 nothing has changed, after it only 6 is left to do. Of several merges at
// once one commits; the others get kConflict (a stale watermark, rows that were inserted or deleted
// meanwhile), have changed nothing and may be tried again. A commit whose outcome is unknown is
// settled by the next merge, which reads the watermark.
//
// Memory: the keys of the generations taken, the addresses of the rows they replace, and batches;
// charged to the budget as merges before it is used, by the number of rows. kOverloaded when there
// is no room: no row was written then, and the merge may be tried again. Folders of drained
// generations are removed by clean-up (clean_up.h), data files of a merge that failed by whoever
// removes unreferenced files of a table.
//
// Kept as it is: how far indexes have caught up (field 10 of the MemWAL entry). A merge never
// claims that for an index.
#pragma once

#include <cstdint>
#include <string>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "env/env.h"
#include "object_store/object_store.h"

namespace sarissa::memwal {

struct MergeOptions {
  object_store::ObjectStore* store = nullptr;
  const env::Env* env = nullptr;
  std::string table;  // path of the base table
  ShardId shard;
  // Generations taken at most; 0 = all there are.
  uint64_t max_generations = 0;
  // Taken until their rows have this many bytes in memory, at least one; 0 = no limit. A generation
  // that does not say its size ends the taking.
  uint64_t max_bytes = 0;
  // A new fragment is begun after so many rows.
  uint64_t fragment_rows = uint64_t{1} << 20;
};

struct MergeReport {
  Generation watermark;  // of the shard, in the base as it is now
  TableVersion version;  // the base's
  uint64_t generations_merged = 0;
  uint64_t generations_left = 0;  // above the watermark when the merge began, and not taken
  uint64_t rows_deleted = 0;      // of the base
  uint64_t rows_appended = 0;
  uint64_t generations_drained = 0;
};

// Blocks. Fills `report`, which starts fresh, also when it fails: with a watermark that was raised
// the rows are merged, and only the drain failed. kInvalid for a table without a MemWAL entry.
Status MergeGenerations(const MergeOptions& options, MergeReport& report);

}  // namespace sarissa::memwal
