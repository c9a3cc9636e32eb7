// A Lance table: versions, fragments, scan, take, commits. A Table object is one immutable version;
// commits return a new one.
//
// Thread safe (immutable). All calls block on the object store and belong on the storage executor.
// The store must outlive it. Readers hold no lock and no lease here: whoever deletes old versions
// (engine/) knows its readers.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "env/env.h"
#include "lance/file/file_reader.h"
#include "lance/file/file_version.h"
#include "lance/file/file_writer.h"
#include "lance/file/schema.h"
#include "lance/table/manifest.h"
#include "object_store/object_store.h"

namespace sarissa::lance {

// fragment id << 32 | physical offset.
using RowAddress = uint64_t;

struct TableContext {
  object_store::ObjectStore* store = nullptr;
  const env::Env* env = nullptr;  // clock and random: names, uuids, manifest timestamps
};

struct CreateOptions {
  FileVersion version = kFileV21;
  std::map<std::string, std::string> config;
  // Written into the first manifest's fragment 0 when set (a generation is a table that is born
  // with its rows).
  std::vector<pb::table::DataFragment> fragments;
  std::vector<pb::table::IndexMetadata> indices;
};

// The rows of one shard's generations up to this one are in the table.
struct CompactedGeneration {
  ShardId shard;
  Generation generation;
};

// A data file that was written but that no manifest names yet.
struct NewFragment {
  pb::table::DataFragment fragment;  // id 0; the commit gives the real one
};

struct ScanOptions {
  // Top-level columns in this order; unset = all.
  std::optional<std::vector<std::string>> columns;
  // Rows per batch at most.
  uint64_t batch_rows = 1024;
  // A batch is cut earlier when its variable-width columns would pass this many bytes.
  uint64_t batch_bytes = 8 << 20;
  // Adds a last column `_rowaddr` (uint64, not null).
  bool with_row_address = false;
};

// Pull-style stream of batches in physical order, deleted rows left out. Next() gives nullptr at
// the end. One thread at a time.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;
};

enum class CommitMode {
  kRebase,             // goes on top of what others committed meanwhile, where that is right
  kOnlyOnThisVersion,  // kConflict as soon as another commit got there first
};

// What one commit of CommitUpsert does.
struct Upsert {
  std::vector<RowAddress> deleted;
  std::vector<NewFragment> appended;
  std::vector<CompactedGeneration> compacted;  // each shard once
};

class Table {
 public:
  virtual ~Table() = default;

  // Makes a table (version 1) that must not exist: kAlreadyExists if it does.
  static Result<std::shared_ptr<Table>> Create(TableContext context, std::string path,
                                               const Schema& schema, const CreateOptions& options);
  // Opens the newest version, or `version`. kNotFound when there is no such table or version.
  static Result<std::shared_ptr<Table>> Open(TableContext context, std::string path,
                                             std::optional<TableVersion> version = std::nullopt);

  virtual const TableContext& context() const = 0;
  virtual const std::string& path() const = 0;
  virtual TableVersion version() const = 0;
  virtual const Schema& schema() const = 0;
  virtual FileVersion file_version() const = 0;
  virtual const pb::table::Manifest& manifest() const = 0;
  virtual const pb::table::IndexSection& indices() const = 0;
  // OK once this version, which was opened, cannot be lost any more. What can be read need not be
  // durable: its writer may be before its sync. To be asked before anything is removed elsewhere on
  // the strength of a version that another committed.
  virtual Status CheckDurable() const = 0;
  // Live rows (physical minus deleted).
  virtual uint64_t CountRows() const = 0;

  virtual Result<std::unique_ptr<BatchStream>> Scan(const ScanOptions& options) const = 0;
  // Rows at `addresses`, in that order; deleted or unknown addresses are kNotFound naming the
  // address.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Take(
      std::span<const RowAddress> addresses,
      const std::optional<std::vector<std::string>>& columns) const = 0;

  // Writes batches into new data files (not visible until committed). Use it for Append.
  class Appender {
   public:
    virtual ~Appender() = default;
    virtual Status Write(const arrow::RecordBatch& batch) = 0;
    virtual Result<NewFragment> Finish() = 0;
  };
  virtual Result<std::unique_ptr<Appender>> NewAppender() const = 0;

  // Commits. Each re-reads and rebases when another writer got there first and the operations are
  // compatible (append over append/delete/index; delete over anything but a rewrite of the same
  // fragment; index entry over data commits), at most 16 times; else kConflict. The result is the
  // new version.
  virtual Result<std::shared_ptr<Table>> CommitAppend(
      std::vector<NewFragment> fragments, CommitMode mode = CommitMode::kRebase) const = 0;
  // Marks rows deleted (addresses may name already deleted rows: no error, counted once). Fragments
  // left without a row are removed.
  virtual Result<std::shared_ptr<Table>> CommitDelete(
      std::span<const RowAddress> addresses) const = 0;
  // All of `upsert` in one commit, as an Update (what a merge_insert is). A watermark must be above
  // the recorded one of its shard, else kConflict ("stale"); with watermarks, kInvalid for a table
  // without a MemWAL entry. Goes on top of appends, of index and configuration commits, and of
  // deletes and updates that neither touch a fragment with rows to delete, nor insert rows, nor
  // move one of the watermarks; anything else is kConflict, and nothing has changed.
  virtual Result<std::shared_ptr<Table>> CommitUpsert(Upsert upsert) const = 0;
  // Replaces the index entries named `removed` (exact name) by `added`; kConflict if one of `added`
  // exists by name already and is not in `removed`.
  virtual Result<std::shared_ptr<Table>> CommitIndices(std::vector<pb::table::IndexMetadata> added,
                                                       std::vector<std::string> removed) const = 0;
};

// Writes a complete one-fragment table (a MemWAL generation) at `path` in the fewest possible puts:
// data file, optional deletion file, manifest version 1. `deleted_offsets` are rows to mask.
// Nothing else may exist at `path`.
Result<std::shared_ptr<Table>> WriteSingleFragmentTable(
    TableContext context, const std::string& path, const Schema& schema, FileVersion version,
    const std::function<Result<std::shared_ptr<arrow::RecordBatch>>()>& next_batch,
    const std::vector<uint32_t>& deleted_offsets,
    const std::map<std::string, std::string>& config = {});

}  // namespace sarissa::lance
