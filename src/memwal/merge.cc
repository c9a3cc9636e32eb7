#include "memwal/merge.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/sync_point.h"
#include "lance/table/row_selection.h"
#include "lance/table/table.h"
#include "memwal/key_column.h"
#include "memwal/mem_wal_index.h"
#include "memwal/names.h"
#include "memwal/newest_rows.h"
#include "memwal/shard_manifest.h"
#include "memwal/storage_schema.h"
#include "object_store/verified_store.h"

namespace sarissa::memwal {
namespace {

constexpr int kDrainRounds = 16;
constexpr uint64_t kKeysPerBatch = 64 << 10;
// A key among the newest ones: its node and share of the buckets, and its text, about.
constexpr int64_t kBytesPerKey = 128;
// A batch, the copy of its newest rows, and the pages that the writer fills.
constexpr int64_t kBytesOfBatches = 24 << 20;

// A generation opened for reading, through the checksums that its flush left.
struct OpenGeneration {
  std::unique_ptr<object_store::VerifiedStore> store;  // outlives the table
  std::shared_ptr<lance::Table> table;
};

Result<std::shared_ptr<arrow::RecordBatch>> KeepRows(
    const std::shared_ptr<arrow::RecordBatch>& batch, const std::vector<int64_t>& rows) {
  if (rows.empty()) return batch->Slice(0, 0);
  const auto count = static_cast<int64_t>(rows.size());
  // A run of rows shares the batch's buffers.
  if (rows.back() - rows.front() + 1 == count) return batch->Slice(rows.front(), count);
  return lance::TakeRows(*batch, rows);
}

// Generations allow nulls where the table does not, because tombstones have nothing else.
Status CheckNotNull(const arrow::RecordBatch& batch, const std::string& place) {
  for (int i = 0; i < batch.num_columns(); ++i) {
    if (batch.schema()->field(i)->nullable() || batch.column(i)->null_count() == 0) continue;
    return Error(ErrorKind::kCorrupt, "{}: {} nulls in column {}, which takes none", place,
                 batch.column(i)->null_count(), batch.schema()->field(i)->name());
  }
  return Status::OK();
}

class Merge {
 public:
  Merge(const MergeOptions& options, MergeReport& report)
      : options_(options),
        report_(report),
        store_(*options.store),
        manifests_(store_, options.table, options.shard) {}

  Status Run() {
    // The shard first, then the base: what another merge has drained is below the watermark then.
    ARROW_ASSIGN_OR_RAISE(const auto manifest, manifests_.ReadNewest());
    ARROW_RETURN_NOT_OK(OpenBase());
    if (!manifest) return Status::OK();
    ARROW_RETURN_NOT_OK(DrainEarlier(*manifest));
    ARROW_RETURN_NOT_OK(Take(*manifest));
    if (taken_.empty()) return Status::OK();
    // A watermark above generations that a power loss takes back would hide their successors.
    ARROW_RETURN_NOT_OK(manifests_.CheckDurable(*manifest));
    ARROW_RETURN_NOT_OK(FindNewest());
    ARROW_RETURN_NOT_OK(FindOlderInBase());
    ARROW_RETURN_NOT_OK(WriteRows());
    ARROW_RETURN_NOT_OK(CommitMerge());
    return Annotate(Drain(*manifest), "the merge is committed, but its generations stay named");
  }

 private:
  Status OpenBase() {
    ARROW_ASSIGN_OR_RAISE(base_, lance::Table::Open({&store_, options_.env}, options_.table));
    if (!HasMemWalIndex(*base_)) {
      return Error(ErrorKind::kInvalid, "table '{}' has no {} entry to record a merge in",
                   options_.table, kMemWalIndexName);
    }
    const auto key = base_->schema().PrimaryKey();
    if (key.size() != 1) {
      return Error(ErrorKind::kUnsupported, "{} has {} primary key columns; one is supported",
                   options_.table, key.size());
    }
    key_column_ = key.front();
    ARROW_ASSIGN_OR_RAISE(const auto merged, MergedGenerations(*base_));
    const auto found = merged.find(options_.shard);
    report_.watermark = found == merged.end() ? Generation() : found->second;
    report_.version = base_->version();
    return Status::OK();
  }

  bool IsMerged(const pb::mem_wal::SsTable& generation) const {
    return Generation(generation.generation()) <= report_.watermark;
  }

  // What another merge committed, or this one's predecessor.
  Status DrainEarlier(const ShardManifest& stored) {
    const auto& named = stored.sstables();
    if (std::none_of(named.begin(), named.end(), [this](const auto& e) { return IsMerged(e); }))
      return Status::OK();
    // A power loss that takes the watermark back must find the generations named.
    ARROW_RETURN_NOT_OK(base_->CheckDurable());
    return Drain(stored);
  }

  // Takes what is merged out of the newest manifest; `stored` is one that was read before.
  Status Drain(ShardManifest stored) {
    for (int round = 0; round < kDrainRounds; ++round) {
      const auto is_merged = [this](const auto& entry) { return IsMerged(entry); };
      const auto& named = stored.sstables();
      if (std::none_of(named.begin(), named.end(), is_merged)) return Status::OK();
      uint64_t removed = 0;
      const auto change = [&](ShardManifest& successor) -> Status {
        auto& entries = *successor.mutable_sstables();
        const auto first_gone = std::remove_if(entries.begin(), entries.end(), is_merged);
        removed = static_cast<uint64_t>(entries.end() - first_gone);
        entries.erase(first_gone, entries.end());
        if (removed > 0) return Status::OK();
        return Error(ErrorKind::kAlreadyExists, "drained by another merge");
      };
      const auto committed = manifests_.Commit(Epoch(stored.writer_epoch()),
                                               ShardManifestVersion(stored.version()), change);
      if (committed.ok()) {
        report_.generations_drained += removed;
        SARISSA_SYNC_POINT("merge.after_drain");
        return Status::OK();
      }
      if (Is(committed.status(), ErrorKind::kAlreadyExists)) return Status::OK();
      if (!Is(committed.status(), ErrorKind::kFenced)) return committed.status();
      // Claimed meanwhile: the new owner keeps the generations, and they are merged all the same.
      ARROW_ASSIGN_OR_RAISE(auto newest, manifests_.ReadNewest());
      if (!newest) return committed.status();
      stored = *std::move(newest);
    }
    return Error(ErrorKind::kConflict, "shard {}: it was claimed {} times during a drain",
                 options_.shard.ToString(), kDrainRounds);
  }

  Status Take(const ShardManifest& manifest) {
    std::vector<pb::mem_wal::SsTable> waiting;
    for (const auto& entry : manifest.sstables()) {
      if (!IsMerged(entry)) waiting.push_back(entry);
    }
    std::sort(waiting.begin(), waiting.end(),
              [](const auto& a, const auto& b) { return a.generation() < b.generation(); });
    for (size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i - 1].generation() != waiting[i].generation()) continue;
      return Error(ErrorKind::kCorrupt, "shard {}: generation {} is named twice",
                   options_.shard.ToString(), waiting[i].generation());
    }
    uint64_t bytes = 0;
    size_t taken = 0;
    for (; taken < waiting.size(); ++taken) {
      if (options_.max_generations != 0 && taken == options_.max_generations) break;
      const auto& entry = waiting[taken];
      const uint64_t limit = options_.max_bytes;
      const uint64_t size = entry.has_in_memory_bytes() ? entry.in_memory_bytes() : limit;
      if (limit != 0 && taken > 0 && (bytes >= limit || size > limit - bytes)) break;
      bytes += std::min(size, UINT64_MAX - bytes);
    }
    report_.generations_left = waiting.size() - taken;
    waiting.resize(taken);
    taken_ = std::move(waiting);
    return Status::OK();
  }

  Status Charge(int64_t bytes) {
    ARROW_ASSIGN_OR_RAISE(env::Reservation more,
                          options_.env->budget->Reserve(bytes, env::MemoryUse::kMerges, "a merge"));
    charge_.Merge(std::move(more));
    return Status::OK();
  }

  Status FindNewest() {
    ARROW_RETURN_NOT_OK(Charge(kBytesOfBatches));
    for (const auto& entry : taken_) {
      const std::string folder = ShardPrefix(options_.table, options_.shard) + entry.path();
      OpenGeneration generation;
      ARROW_ASSIGN_OR_RAISE(generation.store, object_store::VerifiedStore::Open(
                                                  store_, folder + "/", *options_.env->metrics));
      ARROW_ASSIGN_OR_RAISE(generation.table,
                            lance::Table::Open({generation.store.get(), options_.env}, folder));
      ARROW_RETURN_NOT_OK(
          Charge(static_cast<int64_t>(generation.table->CountRows()) * kBytesPerKey));
      ARROW_RETURN_NOT_OK(newest_.Add(*generation.table, key_column_));
      generations_.push_back(std::move(generation));
    }
    return Status::OK();
  }

  Status FindOlderInBase() {
    lance::ScanOptions scan;
    scan.columns = {key_column_};
    scan.batch_rows = kKeysPerBatch;
    scan.with_row_address = true;
    ARROW_ASSIGN_OR_RAISE(const auto stream, base_->Scan(scan));
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
      if (batch == nullptr) return Status::OK();
      const auto& keys = *batch->column(0);
      ARROW_RETURN_NOT_OK(CheckKeyColumn(keys, options_.table));
      const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch->column(1));
      std::vector<lance::RowAddress> older;
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        if (newest_.Contains(KeyBytes(keys, row))) older.push_back(addresses.Value(row));
      }
      // A growing vector may hold twice what is in it.
      ARROW_RETURN_NOT_OK(Charge(static_cast<int64_t>(2 * older.size() * sizeof(older[0]))));
      upsert_.deleted.insert(upsert_.deleted.end(), older.begin(), older.end());
    }
  }

  Status WriteRows() {
    for (size_t i = 0; i < generations_.size(); ++i) ARROW_RETURN_NOT_OK(WriteRowsOf(i));
    return FinishFragment();
  }

  Status WriteRowsOf(size_t index) {
    const lance::Table& generation = *generations_[index].table;
    lance::ScanOptions scan;
    scan.with_row_address = true;
    ARROW_ASSIGN_OR_RAISE(const auto stream, generation.Scan(scan));
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
      if (batch == nullptr) return Status::OK();
      const auto keys = batch->GetColumnByName(key_column_);
      const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch->columns().back());
      std::vector<int64_t> live;
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        if (newest_.IsLive(KeyBytes(*keys, row), index, addresses.Value(row))) live.push_back(row);
      }
      ARROW_ASSIGN_OR_RAISE(const auto kept, KeepRows(batch, live));
      // Leaves out `_tombstone`, which the base does not have.
      ARROW_ASSIGN_OR_RAISE(const auto rows, AlignToStorage(*kept, base_->schema()));
      ARROW_RETURN_NOT_OK(CheckNotNull(*rows, generation.path()));
      ARROW_RETURN_NOT_OK(Append(*rows));
    }
  }

  Status Append(const arrow::RecordBatch& rows) {
    if (rows.num_rows() == 0) return Status::OK();
    if (appender_ == nullptr) {
      ARROW_ASSIGN_OR_RAISE(appender_, base_->NewAppender());
    }
    ARROW_RETURN_NOT_OK(appender_->Write(rows));
    rows_in_fragment_ += static_cast<uint64_t>(rows.num_rows());
    return rows_in_fragment_ < options_.fragment_rows ? Status::OK() : FinishFragment();
  }

  Status FinishFragment() {
    if (appender_ == nullptr) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(auto fragment, appender_->Finish());
    upsert_.appended.push_back(std::move(fragment));
    appended_ += rows_in_fragment_;
    rows_in_fragment_ = 0;
    appender_.reset();
    return Status::OK();
  }

  Status CommitMerge() {
    const Generation last(taken_.back().generation());
    upsert_.compacted = {{options_.shard, last}};
    std::vector<std::string> files;
    for (const auto& fragment : upsert_.appended) {
      for (const auto& file : fragment.fragment.files())
        files.push_back(options_.table + "/data/" + file.path());
    }
    const uint64_t deleted = upsert_.deleted.size();
    SARISSA_SYNC_POINT("merge.before_commit");
    const auto committed = base_->CommitUpsert(std::move(upsert_));
    if (!committed.ok()) {
      // Surely not landed, so nothing names the files. What stays is for the table's own clean-up.
      if (Is(committed.status(), ErrorKind::kConflict)) {
        for (const std::string& file : files) (void)store_.Delete(file);
      }
      return committed.status();
    }
    SARISSA_SYNC_POINT("merge.after_commit");
    report_.watermark = last;
    report_.version = (*committed)->version();
    report_.generations_merged = taken_.size();
    report_.rows_deleted = deleted;
    report_.rows_appended = appended_;
    return Status::OK();
  }

  const MergeOptions& options_;
  MergeReport& report_;
  object_store::ObjectStore& store_;
  const ShardManifestStore manifests_;
  env::Reservation charge_;  // of all that is below
  std::shared_ptr<lance::Table> base_;
  std::string key_column_;
  std::vector<pb::mem_wal::SsTable> taken_;  // ascending
  std::vector<OpenGeneration> generations_;  // of taken_
  NewestRows newest_;
  lance::Upsert upsert_;
  std::unique_ptr<lance::Table::Appender> appender_;
  uint64_t rows_in_fragment_ = 0;
  uint64_t appended_ = 0;
};

}  // namespace

Status MergeGenerations(const MergeOptions& options, MergeReport& report) {
  report = MergeReport();
  return Merge(options, report).Run();
}

}  // namespace sarissa::memwal
