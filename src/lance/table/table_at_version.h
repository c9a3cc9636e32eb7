// The one implementation of Table: an immutable version and the files that its versions share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lance/table/open_files.h"
#include "lance/table/table.h"

namespace sarissa::lance {

class TableAtVersion final : public Table, public std::enable_shared_from_this<TableAtVersion> {
 public:
  // kUnsupported when the table's file version is not read; kCorrupt when its schema does not hold
  // together.
  static Result<std::shared_ptr<Table>> Make(TableContext context, std::string path,
                                             VersionedManifest manifest,
                                             std::shared_ptr<OpenFiles> files = nullptr);

  const TableContext& context() const override { return context_; }
  const std::string& path() const override { return path_; }
  TableVersion version() const override { return manifest_.version; }
  const Schema& schema() const override { return schema_; }
  FileVersion file_version() const override { return file_version_; }
  const pb::table::Manifest& manifest() const override { return manifest_.loaded.manifest; }
  const pb::table::IndexSection& indices() const override { return manifest_.loaded.indices; }
  Status CheckDurable() const override;
  uint64_t CountRows() const override;

  Result<std::unique_ptr<BatchStream>> Scan(const ScanOptions& options) const override;
  Result<std::shared_ptr<arrow::RecordBatch>> Take(
      std::span<const RowAddress> addresses,
      const std::optional<std::vector<std::string>>& columns) const override;
  Result<std::unique_ptr<Appender>> NewAppender() const override;
  Result<std::shared_ptr<Table>> CommitAppend(std::vector<NewFragment> fragments,
                                              CommitMode mode) const override;
  Result<std::shared_ptr<Table>> CommitDelete(std::span<const RowAddress> addresses) const override;
  Result<std::shared_ptr<Table>> CommitUpsert(Upsert upsert) const override;
  Result<std::shared_ptr<Table>> CommitIndices(std::vector<pb::table::IndexMetadata> added,
                                               std::vector<std::string> removed) const override;

 private:
  TableAtVersion() = default;
  Result<std::shared_ptr<Table>> Successor(class TableChange& change) const;
  // The addresses that are not deleted yet. kNotFound for one that does not exist.
  Result<std::map<uint64_t, std::vector<uint32_t>>> LiveOffsets(
      std::span<const RowAddress> addresses) const;
  // This version again, for a commit that has nothing to say.
  std::shared_ptr<Table> Unchanged() const;

  TableContext context_;
  std::string path_;
  VersionedManifest manifest_;
  Schema schema_;
  FileVersion file_version_;
  std::shared_ptr<OpenFiles> files_;
};

// A new manifest for an empty table: schema, configuration, file version, and the Overwrite
// transaction of version 1.
LoadedManifest MakeFirstManifest(const env::Env& env, const Schema& schema,
                                 const CreateOptions& options);

}  // namespace sarissa::lance
