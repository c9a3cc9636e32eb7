#include "lance/table/table_at_version.h"

#include <algorithm>
#include <utility>

#include "lance/table/changes.h"
#include "lance/table/commit.h"
#include "lance/table/fragment_writer.h"
#include "lance/table/scan.h"
#include "lance/table/take.h"

namespace sarissa::lance {
namespace {

Result<FileVersion> FileVersionOf(const pb::table::Manifest& manifest) {
  if (manifest.has_data_format()) {
    const auto& format = manifest.data_format();
    if (!format.file_format().empty() && format.file_format() != "lance") {
      return Error(ErrorKind::kUnsupported, "data files of format '{}'", format.file_format());
    }
    return FileVersion::Parse(format.version());
  }
  // Old writers left it out: the files tell.
  for (const auto& fragment : manifest.fragments()) {
    for (const auto& file : fragment.files()) {
      return FileVersion::Parse(
          fmt::format("{}.{}", file.file_major_version(), file.file_minor_version()));
    }
  }
  return kFileV21;
}

Status CheckFileVersions(const pb::table::Manifest& manifest, FileVersion version) {
  for (const auto& fragment : manifest.fragments()) {
    for (const auto& file : fragment.files()) {
      const bool same =
          file.file_major_version() == version.major && file.file_minor_version() == version.minor;
      // Version 2.0 files say 0.3.
      const bool old =
          version == kFileV20 && file.file_major_version() == 0 && file.file_minor_version() == 3;
      if (same || old) continue;
      return Error(ErrorKind::kCorrupt,
                   "fragment {}: data file {} has version {}.{} in a table of version {}",
                   fragment.id(), file.path(), file.file_major_version(), file.file_minor_version(),
                   version.ToString());
    }
  }
  return Status::OK();
}

std::vector<pb::table::DataFragment> WithRows(std::vector<NewFragment> fragments) {
  std::vector<pb::table::DataFragment> out;
  for (NewFragment& fragment : fragments) {
    if (fragment.fragment.physical_rows() > 0) out.push_back(std::move(fragment.fragment));
  }
  return out;
}

class TableAppender final : public Table::Appender {
 public:
  TableAppender(std::shared_ptr<const Table> table)
      : table_(std::move(table)),
        writer_(*table_->context().store, *table_->context().env->random, table_->path(),
                table_->schema(), table_->file_version()) {}

  Status Write(const arrow::RecordBatch& batch) override { return writer_.Write(batch); }
  Result<NewFragment> Finish() override {
    ARROW_ASSIGN_OR_RAISE(auto fragment, writer_.Finish());
    return NewFragment{std::move(fragment)};
  }

 private:
  const std::shared_ptr<const Table> table_;
  FragmentWriter writer_;
};

}  // namespace

Result<std::shared_ptr<Table>> TableAtVersion::Make(TableContext context, std::string path,
                                                    VersionedManifest manifest,
                                                    std::shared_ptr<OpenFiles> files) {
  const auto place = [&] { return fmt::format("table '{}' version {}", path, manifest.version); };
  const pb::table::Manifest& message = manifest.loaded.manifest;
  auto file_version = FileVersionOf(message);
  if (!file_version.ok()) return Annotate(file_version.status(), place());
  const Status checked = CheckFileVersions(message, *file_version);
  if (!checked.ok()) return Annotate(checked, place());
  auto schema = Schema::FromProto(message.fields(), message.schema_metadata());
  if (!schema.ok()) return Annotate(schema.status(), place());

  std::shared_ptr<TableAtVersion> table(new TableAtVersion());
  table->files_ =
      files != nullptr ? std::move(files) : std::make_shared<OpenFiles>(*context.store, path);
  table->context_ = context;
  table->path_ = std::move(path);
  table->manifest_ = std::move(manifest);
  table->schema_ = *std::move(schema);
  table->file_version_ = *file_version;
  return table;
}

Status TableAtVersion::CheckDurable() const {
  const std::string name =
      NameInTable(path_, "_versions/" + ManifestName(manifest_.version, manifest_.naming));
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, SerializeManifest(manifest_.loaded));
  // A store says that a name is taken only when that cannot be lost.
  const Status put =
      context_.store->Put(name, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                          object_store::PutMode::kIfAbsent);
  if (Is(put, ErrorKind::kAlreadyExists)) return Status::OK();
  if (!put.ok()) return put;
  return Error(ErrorKind::kConflict, "{} was cleaned up meanwhile", name);
}

uint64_t TableAtVersion::CountRows() const {
  uint64_t rows = 0;
  for (const auto& fragment : manifest().fragments()) {
    rows += fragment.physical_rows() -
            std::min(fragment.deletion_file().num_deleted_rows(), fragment.physical_rows());
  }
  return rows;
}

Result<std::unique_ptr<BatchStream>> TableAtVersion::Scan(const ScanOptions& options) const {
  return ScanTable(shared_from_this(), files_, options);
}

Result<std::shared_ptr<arrow::RecordBatch>> TableAtVersion::Take(
    std::span<const RowAddress> addresses,
    const std::optional<std::vector<std::string>>& columns) const {
  return TakeAddresses(*this, *files_, addresses, columns);
}

Result<std::unique_ptr<Table::Appender>> TableAtVersion::NewAppender() const {
  return std::make_unique<TableAppender>(shared_from_this());
}

std::shared_ptr<Table> TableAtVersion::Unchanged() const {
  return std::shared_ptr<Table>(new TableAtVersion(*this));
}

Result<std::shared_ptr<Table>> TableAtVersion::Successor(TableChange& change) const {
  ARROW_ASSIGN_OR_RAISE(VersionedManifest next, Commit(context_, path_, manifest_, change));
  return Make(context_, path_, std::move(next), files_);
}

Result<std::shared_ptr<Table>> TableAtVersion::CommitAppend(std::vector<NewFragment> fragments,
                                                            CommitMode mode) const {
  auto added = WithRows(std::move(fragments));
  if (added.empty()) return Unchanged();
  AppendChange change(std::move(added), mode);
  return Successor(change);
}

Result<OffsetsByFragment> TableAtVersion::LiveOffsets(std::span<const RowAddress> addresses) const {
  OffsetsByFragment offsets;
  for (const RowAddress address : addresses)
    offsets[address >> 32].push_back(static_cast<uint32_t>(address));
  for (auto it = offsets.begin(); it != offsets.end();) {
    auto& [id, rows] = *it;
    const auto* fragment = FindFragment(manifest(), id);
    if (fragment == nullptr) {
      return Error(ErrorKind::kNotFound, "table '{}' version {} has no fragment {}", path_,
                   version(), id);
    }
    const uint64_t highest = *std::max_element(rows.begin(), rows.end());
    if (highest >= fragment->physical_rows()) {
      return Error(ErrorKind::kNotFound,
                   "table '{}' version {} has no row at address {} (fragment {}, offset {})", path_,
                   version(), id << 32 | highest, id, highest);
    }
    ARROW_ASSIGN_OR_RAISE(const auto deleted,
                          files_->Deletions(*fragment, fragment->physical_rows()));
    const DeletionVector wanted(std::move(rows));
    rows.clear();
    for (const uint32_t offset : wanted.offsets()) {
      if (!deleted->Contains(offset)) rows.push_back(offset);
    }
    it = rows.empty() ? offsets.erase(it) : std::next(it);
  }
  return offsets;
}

Result<std::shared_ptr<Table>> TableAtVersion::CommitDelete(
    std::span<const RowAddress> addresses) const {
  ARROW_ASSIGN_OR_RAISE(auto offsets, LiveOffsets(addresses));
  if (offsets.empty()) return Unchanged();
  DeleteChange change(context_, path_, manifest_, std::move(offsets));
  return Successor(change);
}

Result<std::shared_ptr<Table>> TableAtVersion::CommitUpsert(Upsert upsert) const {
  ARROW_ASSIGN_OR_RAISE(auto deleted, LiveOffsets(upsert.deleted));
  auto added = WithRows(std::move(upsert.appended));
  if (deleted.empty() && added.empty() && upsert.compacted.empty()) return Unchanged();
  UpsertChange change(context_, path_, schema_, manifest_, std::move(deleted), std::move(added),
                      std::move(upsert.compacted));
  return Successor(change);
}

Result<std::shared_ptr<Table>> TableAtVersion::CommitIndices(
    std::vector<pb::table::IndexMetadata> added, std::vector<std::string> removed) const {
  IndexChange change(manifest_, std::move(added), std::move(removed));
  return Successor(change);
}

}  // namespace sarissa::lance
