// The deleted rows of one fragment, and the files that hold them.
//
// `_deletions/<fragment>-<read version>-<id>.arrow`: an Arrow IPC file with one column `row_id:
// uint32 not null`, in any order.
// `.bin`: a Roaring bitmap, portable form; writers use it from 5000 deleted rows on. A file holds
// all deleted offsets of its fragment, old and new. Immutable, thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "env/random.h"
#include "object_store/object_store.h"
#include "proto/lance_table.pb.h"

namespace sarissa::lance {

inline constexpr uint64_t kBitmapFromDeletedRows = 5000;

class DeletionVector {
 public:
  DeletionVector() = default;
  // Any order, duplicates allowed.
  explicit DeletionVector(std::vector<uint32_t> offsets);

  uint64_t size() const { return offsets_.size(); }
  bool empty() const { return offsets_.empty(); }
  bool Contains(uint32_t offset) const;
  // Deleted offsets in [first, last), ascending.
  std::span<const uint32_t> Range(uint64_t first, uint64_t last) const;
  std::span<const uint32_t> offsets() const { return offsets_; }
  DeletionVector Union(std::span<const uint32_t> more) const;

 private:
  std::vector<uint32_t> offsets_;  // strictly ascending
};

std::string DeletionFileName(const std::string& table, uint64_t fragment_id,
                             const pb::table::DeletionFile& file);

// The deletion vector of `fragment`; empty when it has no deletion file. kCorrupt names the object:
// not of its kind, an offset at or past `physical_rows`, another number of rows than the manifest
// says.
Result<std::shared_ptr<const DeletionVector>> ReadDeletionVector(
    object_store::ObjectStore& store, const std::string& table,
    const pb::table::DataFragment& fragment, uint64_t physical_rows);

// Writes `vector` as a new deletion file of fragment `fragment_id` and returns the manifest's entry
// for it.
Result<pb::table::DeletionFile> WriteDeletionVector(object_store::ObjectStore& store,
                                                    env::Random& random, const std::string& table,
                                                    uint64_t fragment_id, uint64_t read_version,
                                                    const DeletionVector& vector,
                                                    pb::table::DeletionFile::FileType type);
// The form that the format's writers choose for that many rows.
pb::table::DeletionFile::FileType DeletionFileTypeFor(uint64_t deleted_rows);

}  // namespace sarissa::lance
