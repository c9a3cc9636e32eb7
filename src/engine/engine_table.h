// engine::Table over MemWAL: see table.h for what it promises.
//
// Lock order: this object's lock, then the shard writer's. Neither is held across I/O.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/catalog.h"
#include "engine/claim_ledger.h"
#include "engine/dictionary_limit.h"
#include "engine/snapshot.h"
#include "engine/table.h"
#include "engine/table_cache.h"
#include "memwal/shard_writer.h"

namespace sarissa::engine {

// What a table needs of the catalog around it.
struct TableHome {
  std::shared_ptr<const CatalogOptions> options;
  std::shared_ptr<ClaimLedger> claims;
  // Makes the table's mark in the dirty set durable; asked before a writer takes its first rows.
  std::function<env::Future<env::Unit>()> mark_dirty;
  // Of the registry's row: tells this table from others that had or will have its name.
  int64_t created_at_ms = 0;
};

class EngineTable final : public Table,
                          public CachedTable,
                          public std::enable_shared_from_this<EngineTable> {
 public:
  // `path` is the table's prefix in the store, without a trailing '/'. Blocks. Claims the shard and
  // replays when the log has rows that are in no generation; otherwise the claim waits for the
  // first append.
  static Result<std::shared_ptr<EngineTable>> Open(object_store::ObjectStore& store,
                                                   const env::Env& env, TableHome home,
                                                   const std::string& name,
                                                   const std::string& path);

  const std::string& name() const override { return name_; }
  int64_t created_at_ms() const { return home_.created_at_ms; }
  TableVersion version() const override;
  const std::shared_ptr<arrow::Schema>& schema() const override { return user_schema_; }
  env::Future<AppendReceipt> Append(std::vector<std::shared_ptr<arrow::RecordBatch>> batches,
                                    env::Reservation charge) override;
  env::Future<FlushReport> Flush() override;
  Result<std::unique_ptr<lance::BatchStream>> Scan(const ReadOptions& options) override;
  Result<std::shared_ptr<arrow::RecordBatch>> Get(
      std::string_view key, const std::optional<std::vector<std::string>>& columns) override;

  Result<TableVersion> Checkout(std::optional<TableVersion> version) override;

  // Age reference of the oldest row that is in no generation.
  std::optional<env::MonotonicTime> oldest_unflushed() const;
  // Seals without waiting.
  void SealForAge();
  // Of the writer; nothing while no writer is open.
  std::optional<memwal::ShardHealth> Health() const;
  // What the open handle keeps in memory beside its memtables, about: a fixed part for itself, its
  // schemas and its writer; the manifest that it reads from and a pinned one; every generation
  // reader with the keys that were read of it, and the map of these keys. Left out: files that
  // readers of the base hold open. Charged to the budget as caches for as long as the handle lives:
  // no table is refused for it, but what leaves the cache gives it back.
  int64_t PinnedBytes() const;
  // --- CachedTable
  Table& table() override { return *this; }
  env::Future<env::Unit> Drain(env::Duration deadline) override;
  bool NeedsDrain() const override;
  env::Future<env::Unit> CloseForEviction(env::Duration deadline) override;

  // Stops the writer; see ShardWriter::Close. Appends are refused from here on.
  env::Future<memwal::CloseReport> Close(memwal::CloseMode mode, env::Duration deadline = {});
  // After Close: tells the ledger what the next opener of this table needs to know.
  void RememberClaim() const;

 private:
  struct ForeignShard {
    ShardManifestVersion known;
    std::vector<pb::mem_wal::SsTable> generations;
  };
  struct Tier {  // what Snapshot is made of, before the readers are opened
    ShardId shard;
    std::vector<pb::mem_wal::SsTable> generations;
    std::vector<memwal::MemtableView> memtables;
  };

  EngineTable(object_store::ObjectStore& store, const env::Env& env, TableHome home,
              std::string name, std::string path);

  struct CachedGeneration {
    std::shared_ptr<GenerationReader> reader;
    int64_t bytes = 0;  // without its keys
  };

  Status OpenTable();
  int64_t PinnedBytesLocked() const;
  // Makes the charge follow PinnedBytes; after every change of what is kept.
  void Recharge();
  Status CheckSchema() const;
  class CheckedStream;
  template <typename T>
  Result<T> NotMerelyMissing(Result<T> result);
  std::shared_ptr<memwal::ShardWriter> writer() const;
  // The mark in the dirty set, asked for once.
  env::Future<env::Unit> Mark();
  // The writer, opened by the first caller (inline, it blocks on the store) and awaited by the
  // others.
  env::Future<std::shared_ptr<memwal::ShardWriter>> EnsureWriter();
  env::Future<AppendReceipt> AppendWith(
      const std::shared_ptr<memwal::ShardWriter>& writer,
      const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, env::Reservation charge);
  // Opens the writer or reads stored dictionary values first; on the storage executor.
  struct PendingAppend;
  void AppendSlow(std::shared_ptr<PendingAppend> append);
  Status AdmitSlow(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches);
  Status LoadStoredDictionaries();
  uint64_t StoredRowsAtMost() const;

  // The pinned version's snapshot while there is a pin, else the newest.
  Result<std::shared_ptr<const Snapshot>> TakeSnapshot();
  Result<std::shared_ptr<const Snapshot>> NewestSnapshot();
  enum class OwnShard { kFromWriter, kFromDisk };
  Result<std::shared_ptr<const Snapshot>> TrySnapshot(OwnShard own);
  Result<bool> WasPassed();
  Result<std::vector<Tier>> ReadTiers(OwnShard own);
  Result<std::vector<ShardId>> ListShards();
  Result<std::vector<pb::mem_wal::SsTable>> ReadForeign(const ShardId& shard);
  Result<std::shared_ptr<GenerationReader>> OpenGeneration(const ShardId& shard,
                                                           const pb::mem_wal::SsTable& generation);
  Result<std::shared_ptr<const GenerationKeyMap>> KeyMapFor(const std::vector<Source>& sources,
                                                            std::string identity);

  object_store::ObjectStore& store_;
  const env::Env& env_;
  const TableHome home_;
  const std::shared_ptr<const CatalogOptions> options_;
  const std::shared_ptr<ClaimLedger> claims_;
  const std::string name_;
  const std::string path_;
  const ShardId shard_;
  std::shared_ptr<arrow::Schema> user_schema_;
  lance::Schema storage_schema_;
  std::string key_column_;
  lance::FileVersion base_file_version_;
  std::unique_ptr<DictionaryLimit> dictionary_limit_;

  mutable std::mutex mutex_;
  std::shared_ptr<lance::Table> base_;
  std::shared_ptr<memwal::ShardWriter> writer_;
  // Valid while one caller opens the writer.
  env::Future<std::shared_ptr<memwal::ShardWriter>> writer_opening_;
  env::Future<env::Unit> mark_;
  bool marked_ = false;  // durably
  bool closed_ = false;
  std::shared_ptr<lance::Table> pinned_;
  env::MonotonicTime pinned_until_;
  std::map<ShardId, ForeignShard> foreign_;
  std::map<std::string, CachedGeneration> generations_;  // by path
  std::string key_map_identity_;
  std::shared_ptr<const GenerationKeyMap> key_map_;
  int64_t base_bytes_ = 0;     // of base_
  int64_t pinned_bytes_ = 0;   // of pinned_
  int64_t key_map_bytes_ = 0;  // of key_map_ and of the keys that it was made of
  env::Reservation pin_charge_;
};

}  // namespace sarissa::engine
