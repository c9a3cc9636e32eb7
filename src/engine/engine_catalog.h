// engine::Catalog over a local or remote store: see catalog.h for what it promises.
//
// Who knows what: the registry says which tables exist, the cache which of them are open, the dirty
// set which may have rows that are in no generation, the claim ledger which claims this process may
// go on with. The order of their changes:
//   create   files, registry row
//   claim    mark in the dirty set (in parallel with the claim), first row
//   eviction flush, close, claim ledger, unmark
//   delete   writer stopped, files, claim ledger and mark, registry row
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/catalog.h"
#include "engine/claim_ledger.h"
#include "engine/dirty_set.h"
#include "engine/engine_table.h"
#include "engine/reconciliation.h"
#include "engine/registry.h"
#include "engine/sweeper.h"
#include "engine/table_cache.h"

namespace sarissa::engine {

class EngineCatalog final : public Catalog,
                            private SweptTables,
                            public std::enable_shared_from_this<EngineCatalog> {
 public:
  EngineCatalog(object_store::ObjectStore& store, const env::Env& env, CatalogOptions options,
                std::shared_ptr<Registry> registry, std::shared_ptr<DirtySet> dirty);
  // Registers what is on disk without a row; blocks.
  Status RegisterWhatIsThere();
  void Start();
  void StartReconciliation();

  env::Future<std::shared_ptr<Table>> Create(const std::string& name) override;
  env::Future<std::shared_ptr<Table>> Find(const std::string& name) override;
  Result<TablePage> List(const ListRequest& request) override;
  env::Future<env::Unit> Delete(const std::string& name) override;
  std::string UriOf(const std::string& name) const override;
  uint64_t open_tables() const override { return cache_->counts().resident; }
  CatalogHealth Health() const override;
  CatalogStatus Describe() const override;
  env::Future<env::Unit> Evict(const std::string& name, env::Duration deadline) override;
  Status Close(env::Duration deadline) override;

 private:
  using TablePtr = std::shared_ptr<Table>;
  using TableFuture = env::Future<TablePtr>;
  using CachedPtr = TableCache::CachedPtr;
  struct Creation;

  // --- SweptTables
  void SealOpenTables() override;
  std::vector<std::string> ColdDirty() const override;
  env::Future<env::Unit> FlushCold(const std::string& name) override;

  std::string PathOf(const std::string& name) const { return name + options_->table_suffix; }
  TableInfo NewInfo(const std::string& name) const;
  TableHome HomeOf(const TableInfo& info) const;
  std::vector<std::shared_ptr<EngineTable>> OpenTables() const;
  bool UnderMemoryPressure() const;
  void RelieveMemory(const std::vector<std::shared_ptr<EngineTable>>& tables);

  void FindSlow(const std::string& name, std::shared_ptr<env::Promise<TablePtr>> promise);
  void FindRegistered(const TableInfo& info, int tries,
                      std::shared_ptr<env::Promise<TablePtr>> promise);
  // True if the open table is the registered one.
  static bool IsOf(const TableInfo& info, const TablePtr& table);
  TableCache::Opener OpenerOf(const TableInfo& info);
  // Drops the handle of a table that is not registered any more, unless it left by itself.
  env::Future<env::Unit> Drop(const std::string& name, const CachedTable* stale);
  void StartCreation(const std::shared_ptr<Creation>& creation);
  void FinishCreation(const std::shared_ptr<Creation>& creation, const Result<TablePtr>& table);
  env::Future<CachedPtr> MakeTable(const std::shared_ptr<Creation>& creation);
  void DeleteTaken(const std::string& name, const TableCache::Turn& turn,
                   const std::shared_ptr<env::Promise<env::Unit>>& promise);
  void OnEviction(const TableCache::Eviction& eviction);

  object_store::ObjectStore& store_;
  const env::Env& env_;
  const std::shared_ptr<const CatalogOptions> options_;
  const std::shared_ptr<Registry> registry_;
  const std::shared_ptr<DirtySet> dirty_;
  const std::shared_ptr<ClaimLedger> claims_ = std::make_shared<ClaimLedger>();
  env::Counter& evictions_;
  env::Counter& evictions_undrained_;
  std::shared_ptr<TableCache> cache_;
  std::shared_ptr<Sweeper> sweeper_;
  std::shared_ptr<Reconciliation> reconciliation_;  // null when it is off
};

}  // namespace sarissa::engine
