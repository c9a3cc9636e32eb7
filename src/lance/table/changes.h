// The three things this project commits: appended fragments, deleted rows, index entries. See
// commit.h for the protocol.
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

namespace sarissa::lance {

// Adds fragments with new ids. kUnsupported for a table with stable row ids.
class AppendChange final : public TableChange {
 public:
  explicit AppendChange(std::vector<pb::table::DataFragment> fragments)
      : fragments_(std::move(fragments)) {}
  Status CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) override;
  Status Apply(const VersionedManifest& newest, LoadedManifest& next,
               pb::transaction::Transaction& transaction) override;

 private:
  const std::vector<pb::table::DataFragment> fragments_;
};

// Marks rows deleted: unites their offsets with what each fragment has by then. A fragment that
// others rewrote, or a row that others updated, is a conflict; a fragment or row that others
// deleted is not.
class DeleteChange final : public TableChange {
 public:
  using OffsetsByFragment = std::map<uint64_t, std::vector<uint32_t>>;
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
