// Writes a frozen memtable as a generation: a small Lance table in the shard's folder, with
// `_pk_index`, bloom filter and the position sidecar beside it, and the checksums of all these
// files last. Nothing points at it until the shard manifest is committed; a failed attempt leaves
// an orphan folder under a name that is never used again.
#pragma once

#include <string>

#include "env/env.h"
#include "lance/file/file_version.h"
#include "lance/file/schema.h"
#include "memwal/memtable.h"
#include "object_store/object_store.h"
#include "proto/lance_mem_wal.pb.h"

namespace sarissa::memwal {

struct GenerationTarget {
  object_store::ObjectStore* store = nullptr;
  const env::Env* env = nullptr;
  std::string shard_prefix;  // ends with '/'
  const lance::Schema* storage_schema = nullptr;
  lance::FileVersion file_version = lance::kFileV21;
  int key_column = 0;
};

// Blocks. Rows keep their arrival order; rows that a newer row of their key replaced are masked by
// the deletion vector. Returns the manifest entry to commit.
Result<pb::mem_wal::SsTable> WriteGeneration(const GenerationTarget& target,
                                             const MemtableView& rows);

}  // namespace sarissa::memwal
