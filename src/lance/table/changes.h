// The things this project commits: appended fragments, deleted rows, index entries, and upserts
// (deleted rows, appended fragments and how far a shard is merged, in one). See commit.h for the
// protocol.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lance/table/commit.h"
#include "lance/table/deletion_vector.h"
#include "lance/table/table.h"

namespace sarissa::lance {

using OffsetsByFragment = std::map<uint64_t, std::vector<uint32_t>>;

// Adds `fragments` with new ids. kUnsupported for a table with stable row ids.
Status AddFragments(const std::vector<pb::table::DataFragment>& fragments,
                    pb::table::Manifest& manifest);
// `fragment`, whose deleted rows are `current`, with `offsets` deleted, too: with a new deletion
// file, or without one when no row is left (see IsEmptied).
Result<pb::table::DataFragment> WithDeleted(const TableContext& context, const std::string& table,
                                            const pb::table::DataFragment& fragment,
                                            const DeletionVector& current,
                                            std::span<const uint32_t> offsets,
                                            uint64_t read_version);
bool IsEmptied(const pb::table::DataFragment& fragment);
// Puts each of `after` (by fragment id) in the place of what it was made from; emptied ones go.
void ReplaceFragments(const std::map<uint64_t, pb::table::DataFragment>& after,
                      pb::table::Manifest& manifest);

// Adds fragments with new ids. kUnsupported for a table with stable row ids.
class AppendChange final : public TableChange {
 public:
  explicit AppendChange(std::vector<pb::table::DataFragment> fragments,
                        CommitMode mode = CommitMode::kRebase)
      : fragments_(std::move(fragments)), mode_(mode) {}
  Status CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) override;
  Status Apply(const VersionedManifest& newest, LoadedManifest& next,
               pb::transaction::Transaction& transaction) override;

 private:
  const std::vector<pb::table::DataFragment> fragments_;
  const CommitMode mode_;
};

// Marks rows deleted: unites their offsets with what each fragment has by then. A fragment that
// others rewrote, or a row that others updated, is a conflict; a fragment or row that others
// deleted is not.
class DeleteChange final : public TableChange {
 public:
  // `context`, `table` and `base` outlive the change; the offsets exist in `base`.
  DeleteChange(const TableContext& context, const std::string& table, const VersionedManifest& base,
               OffsetsByFragment offsets)
      : context_(context), table_(table), base_(base), offsets_(std::move(offsets)) {}
  Status CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) override;
  Status Apply(const VersionedManifest& newest, LoadedManifest& next,
               pb::transaction::Transaction& transaction) override;

 private:
  // The fragment as of before and after an earlier attempt, whose deletion file can be used again.
  struct Outcome {
    std::string before;
    pb::table::DataFragment after;
  };

  Result<pb::table::DataFragment> Updated(const pb::table::DataFragment& fragment,
                                          std::span<const uint32_t> offsets, uint64_t read_version);
  Status CheckNotMoved(const pb::table::DataFragment& fragment, std::span<const uint32_t> offsets,
                       const DeletionVector& current) const;

  const TableContext& context_;
  const std::string& table_;
  const VersionedManifest& base_;
  const OffsetsByFragment offsets_;
  bool rows_may_have_moved_ = false;
  std::map<uint64_t, Outcome> outcomes_;
};

// Deletes rows, adds fragments and raises the watermarks of shards, as an Update. What was deleted
// was decided by looking at all rows of the base, so rows that others moved or inserted (other than
// by a plain append) are a conflict, as is any change of a fragment with rows to delete.
class UpsertChange final : public TableChange {
 public:
  // `context`, `table`, `schema` and `base` outlive the change; the offsets are live rows of
  // `base`.
  UpsertChange(const TableContext& context, const std::string& table, const Schema& schema,
               const VersionedManifest& base, OffsetsByFragment deleted,
               std::vector<pb::table::DataFragment> added,
               std::vector<CompactedGeneration> compacted)
      : context_(context),
        table_(table),
        schema_(schema),
        base_(base),
        deleted_(std::move(deleted)),
        added_(std::move(added)),
        compacted_(std::move(compacted)) {}
  Status CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) override;
  Status Apply(const VersionedManifest& newest, LoadedManifest& next,
               pb::transaction::Transaction& transaction) override;

 private:
  // The fragments with rows to delete, after it. Written once: nobody may change them meanwhile.
  Status DeleteRows(const VersionedManifest& newest);

  const TableContext& context_;
  const std::string& table_;
  const Schema& schema_;
  const VersionedManifest& base_;
  const OffsetsByFragment deleted_;
  const std::vector<pb::table::DataFragment> added_;
  const std::vector<CompactedGeneration> compacted_;
  std::map<uint64_t, pb::table::DataFragment> after_;
};

// Replaces index entries by name. An entry of those names that others changed since the base is a
// conflict.
class IndexChange final : public TableChange {
 public:
  IndexChange(const VersionedManifest& base, std::vector<pb::table::IndexMetadata> added,
              std::vector<std::string> removed);
  Status CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) override;
  Status Apply(const VersionedManifest& newest, LoadedManifest& next,
               pb::transaction::Transaction& transaction) override;

 private:
  const pb::table::IndexSection& base_indices_;
  const std::vector<pb::table::IndexMetadata> added_;
  const std::vector<std::string> removed_;
};

}  // namespace sarissa::lance
