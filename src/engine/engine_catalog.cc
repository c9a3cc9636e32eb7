#include "engine/engine_catalog.h"

#include <algorithm>

namespace sarissa::engine {
namespace {

// The sweeper looks at the open tables this often, at most; it looks at nothing else.
constexpr env::Duration kSweepPeriod = std::chrono::seconds(1);
// Deletes and re-creations by other processes are noticed within this time.
constexpr env::Duration kRegistryAge = std::chrono::seconds(1);
// How long a delete waits for appends that are on their way.
constexpr env::Duration kQuiesceTimeout = std::chrono::seconds(60);
// A writer's close ends by its own deadline; only a wedged executor needs this one.
constexpr env::Duration kCloseGrace = std::chrono::seconds(2);
// A name that is deleted and made again all the time.
constexpr int kFindTries = 8;
// Clean tables that leave in one pass when memory is short.
constexpr uint64_t kCleanEvictions = 64;

// " (generations 3 4: why)"
std::string OnlyInLog(const Result<memwal::CloseReport>& report) {
  if (!report.ok()) return fmt::format(" ({})", report.status().message());
  std::string generations;
  for (const Generation generation : report->only_in_log)
    generations += fmt::format(" {}", generation);
  return fmt::format(" (generations{}{}{})", generations, report->cause.ok() ? "" : ": ",
                     report->cause.ok() ? "" : report->cause.message());
}

std::shared_ptr<EngineTable> AsEngineTable(const TableCache::CachedPtr& cached) {
  return std::static_pointer_cast<EngineTable>(cached);
}

}  // namespace

EngineCatalog::EngineCatalog(object_store::ObjectStore& store, const env::Env& env,
                             CatalogOptions options, std::shared_ptr<Registry> registry,
                             std::shared_ptr<DirtySet> dirty)
    : store_(store),
      env_(env),
      options_(std::make_shared<const CatalogOptions>(std::move(options))),
      registry_(std::move(registry)),
      dirty_(std::move(dirty)),
      evictions_(env.metrics->GetCounter("rollout_evictions_total", "Stores that left the cache.")),
      evictions_undrained_(env.metrics->GetCounter(
          "rollout_evictions_undrained_total",
          "Evictions that left rows in the log, or were given up because the flush failed.")) {}

void EngineCatalog::Start() {
  TableCacheOptions cache;
  cache.capacity = std::max<uint64_t>(1, options_->cache_capacity);
  cache.open_timeout = options_->open_timeout;
  cache.drain_deadline = options_->drain_deadline;
  cache_ = std::make_shared<TableCache>(
      env_, cache, [weak = weak_from_this()](const TableCache::Eviction& eviction) {
        if (const auto self = weak.lock()) self->OnEviction(eviction);
      });
  const bool by_age = options_->flush_interval.count() > 0;
  sweeper_ = std::make_shared<Sweeper>(
      std::shared_ptr<SweptTables>(shared_from_this(), this), env_,
      by_age ? std::min(kSweepPeriod, options_->flush_interval) : kSweepPeriod);
  sweeper_->Start();
  if (options_->reconcile) StartReconciliation();
}

void EngineCatalog::StartReconciliation() {
  ReconciliationOptions walk;
  walk.store = &store_;
  walk.env = &env_;
  walk.registry = registry_;
  walk.dirty = dirty_;
  walk.instance_id = options_->instance_id;
  walk.registry_path = options_->registry_path;
  walk.table_suffix = options_->table_suffix;
  walk.new_row = [weak = weak_from_this()](const std::string& name) {
    const auto self = weak.lock();
    return self == nullptr ? TableInfo{name, "", 0} : self->NewInfo(name);
  };
  walk.tables_per_second = options_->reconcile_tables_per_second;
  walk.settle = options_->reconcile_settle;
  reconciliation_ = std::make_shared<Reconciliation>(std::move(walk));
  reconciliation_->Start();
}

TableInfo EngineCatalog::NewInfo(const std::string& name) const {
  const auto now = env_.clock->WallNow().time_since_epoch();
  return {name, UriOf(name), std::chrono::duration_cast<std::chrono::milliseconds>(now).count()};
}

TableHome EngineCatalog::HomeOf(const TableInfo& info) const {
  TableHome home;
  home.options = options_;
  home.claims = claims_;
  home.created_at_ms = info.created_at_ms;
  home.mark_dirty = [dirty = dirty_, mark = DirtyTable{info.name, info.created_at_ms}] {
    return dirty->Mark(mark);
  };
  return home;
}

std::string EngineCatalog::UriOf(const std::string& name) const {
  return options_->uri_prefix + PathOf(name);
}

Result<TablePage> EngineCatalog::List(const ListRequest& request) {
  return registry_->Page(request);
}

// --- Find

bool EngineCatalog::IsOf(const TableInfo& info, const TablePtr& table) {
  return static_cast<const EngineTable&>(*table).created_at_ms() == info.created_at_ms;
}

EngineCatalog::TableFuture EngineCatalog::Find(const std::string& name) {
  // The usual case goes without a detour: the registry was looked at a moment ago and the table is
  // open.
  if (const auto info = registry_->FindInMemory(name, kRegistryAge)) {
    auto found = cache_->Find(name, OpenerOf(*info));
    if (!found.IsReady() || !found.Get().ok() || IsOf(*info, *found.Get())) return found;
  }
  auto promise = std::make_shared<env::Promise<TablePtr>>();
  auto future = promise->future();
  env_.storage->Post([self = shared_from_this(), name, promise] { self->FindSlow(name, promise); });
  return future;
}

void EngineCatalog::FindSlow(const std::string& name,
                             std::shared_ptr<env::Promise<TablePtr>> promise) {
  // Before the registry is looked at: a create registers first, so a table that is open now and not
  // registered then was deleted elsewhere.
  const CachedPtr open = cache_->Peek(name);
  auto registered = registry_->FindRecent(name, kRegistryAge);
  // Made by another process a moment ago?
  if (registered.ok() && !*registered) registered = registry_->Find(name);
  if (!registered.ok()) return promise->Set(registered.status());
  if (*registered) return FindRegistered(**registered, 1, std::move(promise));
  Drop(name, open.get()).Then(*env_.storage, [promise, name](const auto&) {
    promise->Set(Error(ErrorKind::kNotFound, "store '{}' does not exist", name));
  });
}

void EngineCatalog::FindRegistered(const TableInfo& info, int tries,
                                   std::shared_ptr<env::Promise<TablePtr>> promise) {
  cache_->Find(info.name, OpenerOf(info))
      .Then(*env_.storage,
            [self = shared_from_this(), info, tries, promise](const Result<TablePtr>& found) {
              if (!found.ok() || IsOf(info, *found)) return promise->Set(found);
              // Either the handle or what we know of the registry is old.
              const auto now = self->registry_->Find(info.name);
              if (!now.ok()) return promise->Set(now.status());
              if (*now && IsOf(**now, *found)) return promise->Set(found);
              if (tries >= kFindTries) {
                return promise->Set(Error(ErrorKind::kConflict,
                                          "store '{}' is being deleted and made again", info.name));
              }
              const auto* stale = static_cast<const EngineTable*>(found->get());
              self->Drop(info.name, stale)
                  .Then(*self->env_.storage,
                        [self, info = now->value_or(info), tries, promise](const auto&) {
                          self->FindRegistered(info, tries + 1, promise);
                        });
            });
}

TableCache::Opener EngineCatalog::OpenerOf(const TableInfo& info) {
  return [self = shared_from_this(), info]() -> env::Future<CachedPtr> {
    auto table = EngineTable::Open(self->store_, self->env_, self->HomeOf(info), info.name,
                                   self->PathOf(info.name));
    if (table.ok()) return env::Future<CachedPtr>::Ready(CachedPtr(*table));
    // A registered store whose files are missing is damage, unless it was deleted just now.
    Status status = table.status();
    if (Is(status, ErrorKind::kNotFound)) {
      const auto registered = self->registry_->Find(info.name);
      if (registered.ok() && *registered) status = WithKind(status, ErrorKind::kCorrupt);
    }
    return env::Future<CachedPtr>::Ready(status);
  };
}

env::Future<env::Unit> EngineCatalog::Drop(const std::string& name, const CachedTable* stale) {
  if (stale == nullptr) return env::Future<env::Unit>::Ready(env::Unit{});
  auto promise = std::make_shared<env::Promise<env::Unit>>();
  auto future = promise->future();
  cache_->TakeIfOpen(name, stale)
      .Then(*env_.storage,
            [self = shared_from_this(), name, promise](const Result<TableCache::Turn>& turn) {
              if (!turn.ok()) return promise->Set(turn.status());
              if (turn->table == nullptr) return promise->Set(env::Unit{});
              AsEngineTable(turn->table)
                  ->Close(memwal::CloseMode::kDiscard, kQuiesceTimeout)
                  .Then(*self->env_.storage, [self, name, promise, turn = *turn](const auto&) {
                    self->claims_->Forget(self->PathOf(name));
                    self->dirty_->Unmark(name);
                    promise->Set(env::Unit{});
                  });
            });
  return future;
}

// --- Create

struct EngineCatalog::Creation {
  TableInfo info;
  bool made = false;  // by this creation; written before the lease is given
  int tries = 0;
  env::Promise<TablePtr> promise;
};

EngineCatalog::TableFuture EngineCatalog::Create(const std::string& name) {
  auto creation = std::make_shared<Creation>();
  creation->info = NewInfo(name);
  auto future = creation->promise.future();
  env_.storage->Post([self = shared_from_this(), creation] { self->StartCreation(creation); });
  return future;
}

void EngineCatalog::StartCreation(const std::shared_ptr<Creation>& creation) {
  const std::string& name = creation->info.name;
  const auto registered = registry_->Find(name);
  if (!registered.ok()) return creation->promise.Set(registered.status());
  if (*registered) {
    return creation->promise.Set(
        Error(ErrorKind::kAlreadyExists, "store '{}' exists already", name));
  }
  cache_->Find(name, [self = shared_from_this(), creation] { return self->MakeTable(creation); })
      .Then(*env_.storage, [self = shared_from_this(), creation](const Result<TablePtr>& table) {
        self->FinishCreation(creation, table);
      });
}

void EngineCatalog::FinishCreation(const std::shared_ptr<Creation>& creation,
                                   const Result<TablePtr>& table) {
  const bool more_tries = ++creation->tries < kFindTries;
  if (creation->made || (!table.ok() && !Is(table.status(), ErrorKind::kNotFound)))
    return creation->promise.Set(table);
  // Whoever was opening the name when this creation came found nothing.
  if (!table.ok())
    return more_tries ? StartCreation(creation) : creation->promise.Set(table.status());
  const std::string& name = creation->info.name;
  const auto registered = registry_->Find(name);
  if (!registered.ok()) return creation->promise.Set(registered.status());
  if ((*registered && IsOf(**registered, *table)) || !more_tries) {
    return creation->promise.Set(
        Error(ErrorKind::kAlreadyExists, "store '{}' exists already", name));
  }
  // A handle of a table that another process deleted.
  Drop(name, static_cast<const EngineTable*>(table->get()))
      .Then(*env_.storage,
            [self = shared_from_this(), creation](const auto&) { self->StartCreation(creation); });
}

env::Future<EngineCatalog::CachedPtr> EngineCatalog::MakeTable(
    const std::shared_ptr<Creation>& creation) {
  using CachedFuture = env::Future<CachedPtr>;
  const TableInfo& info = creation->info;
  const std::string path = PathOf(info.name);
  lance::CreateOptions create;
  create.version = options_->file_version;
  // Tells a table from one of the same name that was deleted before it.
  create.config["sarissa.incarnation"] = env_.random->NextUuid().ToString();
  const auto made = lance::Table::Create({&store_, &env_}, path, options_->schema, create);
  // Files without a registry row: an earlier create stopped half way, or other software made the
  // table. It is adopted.
  if (!made.ok() && !Is(made.status(), ErrorKind::kAlreadyExists))
    return CachedFuture::Ready(made.status());
  auto table = EngineTable::Open(store_, env_, HomeOf(info), info.name, path);
  if (!table.ok()) return CachedFuture::Ready(table.status());
  auto promise = std::make_shared<env::Promise<CachedPtr>>();
  auto future = promise->future();
  registry_->Add(info).Then(*env_.storage, [creation, promise, table = *table](const auto& added) {
    if (!added.ok()) return promise->Set(added.status());
    creation->made = true;
    promise->Set(CachedPtr(table));
  });
  return future;
}

Status EngineCatalog::RegisterWhatIsThere() {
  ARROW_ASSIGN_OR_RAISE(const auto listing, store_.List("", {}));
  for (const std::string& folder : listing.folders) {
    const std::string path = folder.substr(0, folder.size() - 1);
    if (path == options_->registry_path || !path.ends_with(options_->table_suffix)) continue;
    const std::string name = path.substr(0, path.size() - options_->table_suffix.size());
    ARROW_ASSIGN_OR_RAISE(const auto registered, registry_->FindRecent(name, kRegistryAge));
    if (registered) continue;
    registry_->Add(NewInfo(name)).Then(*env_.storage, [env = &env_, name](const auto& added) {
      if (added.ok() || Is(added.status(), ErrorKind::kAlreadyExists)) return;
      env::Tell(*env, env::EventLog::Level::kError, "store_not_registered",
                {{"store", name}, {"error", added.status().message()}});
    });
  }
  return Status::OK();
}

// --- Delete

env::Future<env::Unit> EngineCatalog::Delete(const std::string& name) {
  auto promise = std::make_shared<env::Promise<env::Unit>>();
  auto future = promise->future();
  cache_->Take(name).Then(*env_.storage, [self = shared_from_this(), name,
                                          promise](const Result<TableCache::Turn>& turn) {
    if (!turn.ok()) return promise->Set(turn.status());
    const auto registered = self->registry_->Find(name);
    const bool there = registered.ok() && *registered;
    if (there) return self->DeleteTaken(name, *turn, promise);
    promise->Set(!registered.ok() ? registered.status()
                                  : Error(ErrorKind::kNotFound, "store '{}' does not exist", name));
  });
  return future;
}

void EngineCatalog::DeleteTaken(const std::string& name, const TableCache::Turn& turn,
                                const std::shared_ptr<env::Promise<env::Unit>>& promise) {
  const auto remove = [self = shared_from_this(), name, turn,
                       promise](const Result<memwal::CloseReport>& stopped) {
    if (!stopped.ok()) {
      return promise->Set(
          Annotate(stopped.status(), "the writer of store '" + name + "' does not stop"));
    }
    const Status removed = self->store_.DeletePrefix(self->PathOf(name) + "/");
    if (!removed.ok()) return promise->Set(removed);
    self->claims_->Forget(self->PathOf(name));
    self->dirty_->Unmark(name);
    // `turn` is held until the row is gone.
    self->registry_->Remove(name).Then(
        *self->env_.storage,
        [promise, turn](const Result<env::Unit>& result) { promise->Set(result); });
  };
  auto stopped = turn.table == nullptr
                     ? env::Future<memwal::CloseReport>::Ready(memwal::CloseReport{})
                     : AsEngineTable(turn.table)->Close(memwal::CloseMode::kDiscard);
  stopped.WithDeadline(*env_.storage, kQuiesceTimeout, "stopping the writer of '" + name + "'")
      .Then(*env_.storage, remove);
}

// --- Eviction and the sweep

void EngineCatalog::OnEviction(const TableCache::Eviction& eviction) {
  if (eviction.left) {
    evictions_.Add();
    const auto table = AsEngineTable(eviction.table);
    table->RememberClaim();
    const bool fenced = !claims_->Recall(PathOf(eviction.name)).fenced.ok();
    // A failed one stays marked: the sweeper opens it again, which heals it.
    if (eviction.drained.ok() || fenced) dirty_->Unmark(eviction.name);
  }
  if (eviction.drained.ok()) return;
  evictions_undrained_.Add();
  env::Tell(env_, env::EventLog::Level::kWarning, "eviction_undrained",
            {{"store", eviction.name},
             {"stays_open", eviction.left ? "false" : "true"},
             {"kind", std::string(ErrorKindName(KindOf(eviction.drained)))},
             {"error", eviction.drained.message()}});
}

env::Future<env::Unit> EngineCatalog::Evict(const std::string& name, env::Duration deadline) {
  return cache_->Evict(name, deadline);
}

std::vector<std::string> EngineCatalog::ColdDirty() const {
  std::vector<std::string> cold;
  for (const DirtyTable& table : dirty_->All())
    if (!cache_->Contains(table.name)) cold.push_back(table.name);
  return cold;
}

env::Future<env::Unit> EngineCatalog::FlushCold(const std::string& name) {
  auto promise = std::make_shared<env::Promise<env::Unit>>();
  auto future = promise->future();
  Find(name).Then(
      *env_.storage, [self = shared_from_this(), name, promise](const Result<TablePtr>& found) {
        if (Is(found.status(), ErrorKind::kNotFound)) {
          self->dirty_->Unmark(name);
          return promise->Set(env::Unit{});
        }
        if (!found.ok()) return promise->Set(found.status());
        // The lease is held until the flush ended.
        (*found)->Flush().Then(*self->env_.storage, [promise, lease = *found](const auto& flushed) {
          promise->Set(flushed.ok() ? Result<env::Unit>(env::Unit{})
                                    : Result<env::Unit>(flushed.status()));
        });
      });
  return future;
}

std::vector<std::shared_ptr<EngineTable>> EngineCatalog::OpenTables() const {
  std::vector<std::shared_ptr<EngineTable>> tables;
  for (const auto& cached : cache_->Open()) tables.push_back(AsEngineTable(cached));
  return tables;
}

// Memtables are the part of the budget that a flush gives back.
bool EngineCatalog::UnderMemoryPressure() const {
  const int64_t limit = env_.budget->limit();
  return limit > 0 && (env_.budget->waiting() > 0 || env_.budget->used() > limit / 10 * 7);
}

// The largest first, until what they give back is enough: a store that holds much and gets no
// writes would never seal itself.
void EngineCatalog::RelieveMemory(const std::vector<std::shared_ptr<EngineTable>>& tables) {
  std::vector<std::pair<int64_t, EngineTable*>> holders;
  for (const auto& table : tables) {
    const auto health = table->Health();
    if (health && health->unflushed_bytes > 0)
      holders.emplace_back(health->unflushed_bytes, table.get());
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  int64_t excess = env_.budget->used() - env_.budget->limit() / 2;
  for (const auto& [bytes, table] : holders) {
    if (excess <= 0) break;
    table->SealForAge();
    excess -= bytes;
  }
  if (excess > 0) cache_->EvictClean(kCleanEvictions);
}

void EngineCatalog::SealOpenTables() {
  const std::vector<std::shared_ptr<EngineTable>> tables = OpenTables();
  const env::MonotonicTime now = env_.clock->Now();
  const bool by_age = options_->flush_interval.count() > 0;
  if (UnderMemoryPressure()) RelieveMemory(tables);
  for (const auto& table : tables) {
    const auto oldest = table->oldest_unflushed();
    if (oldest && by_age && now - *oldest >= options_->flush_interval) table->SealForAge();
  }
  cache_->Rebalance();
}

// --- Health and the end

CatalogHealth EngineCatalog::Health() const {
  CatalogHealth health;
  for (const auto& table : OpenTables()) {
    const auto shard = table->Health();
    if (!shard) continue;
    health.unflushed_bytes += shard->unflushed_bytes;
    ShardTrouble trouble{table->name(), ShardTrouble::Kind::kRetrying, shard->cause};
    if (shard->state == memwal::WriterState::kFenced) {
      trouble.kind = ShardTrouble::Kind::kFenced;
      ++health.fenced;
    } else if (shard->state == memwal::WriterState::kFailed) {
      trouble.kind = ShardTrouble::Kind::kFailed;
      ++health.failed;
    } else if (!shard->flush_trouble.ok()) {
      trouble.cause = shard->flush_trouble;
      ++health.retrying;
    } else {
      continue;
    }
    health.troubles.push_back(std::move(trouble));
  }
  std::sort(health.troubles.begin(), health.troubles.end(),
            [](const auto& a, const auto& b) { return a.table < b.table; });
  return health;
}

CatalogStatus EngineCatalog::Describe() const {
  CatalogStatus status;
  status.tables = registry_->size();
  const TableCacheCounts counts = cache_->counts();
  status.resident = counts.resident;
  status.leased = counts.leased;
  status.opening = counts.opening;
  status.draining = counts.draining;
  status.waiting = counts.waiting;
  status.capacity = options_->cache_capacity;
  status.marked = dirty_->size();
  status.dirty = ColdDirty().size();
  status.evictions = counts.evictions;
  status.evictions_undrained = counts.evictions_undrained;
  std::optional<env::MonotonicTime> oldest;
  for (const auto& table : OpenTables()) {
    const auto since = table->oldest_unflushed();
    if (!since) continue;
    ++status.dirty;
    if (!oldest || *since < *oldest) oldest = since;
  }
  if (oldest) status.oldest_unflushed = env_.clock->Now() - *oldest;
  status.sweeper = sweeper_->status();
  if (reconciliation_ != nullptr) status.reconciliation = reconciliation_->status();
  status.health = Health();
  return status;
}

Status EngineCatalog::Close(env::Duration deadline) {
  sweeper_->Stop();
  if (reconciliation_ != nullptr) reconciliation_->Stop();
  const std::vector<CachedPtr> tables = cache_->Shut();
  std::vector<env::Future<memwal::CloseReport>> closing;
  for (const auto& table : tables)
    closing.push_back(AsEngineTable(table)->Close(memwal::CloseMode::kFlush, deadline));
  const env::MonotonicTime end = env_.clock->Now() + deadline + kCloseGrace;
  std::string unflushed;
  for (size_t i = 0; i < tables.size(); ++i) {
    const env::Duration left = std::max(env::Duration(0), end - env_.clock->Now());
    const auto report = closing[i].Wait(left);
    const std::string& name = AsEngineTable(tables[i])->name();
    if (report.ok() && report->only_in_log.empty()) {
      dirty_->Unmark(name);
      continue;
    }
    unflushed += fmt::format("{}{}{}", unflushed.empty() ? "" : ", ", name, OnlyInLog(report));
  }
  // What stays marked too long costs an open at the next start.
  (void)dirty_->Close().Wait(kCloseGrace);
  if (unflushed.empty()) return Status::OK();
  return Error(ErrorKind::kFailedWriter, "rows are only in the log of: {}", unflushed);
}

Result<std::shared_ptr<Catalog>> Catalog::Open(object_store::ObjectStore& store,
                                               const env::Env& env, CatalogOptions options) {
  ARROW_ASSIGN_OR_RAISE(auto registry, Registry::Open({&store, &env}, options.registry_path,
                                                      options.uri_prefix, options.table_suffix));
  ARROW_ASSIGN_OR_RAISE(auto dirty, DirtySet::Open({&store, &env, options.instance_id}));
  const bool may_lack_rows = registry->may_lack_rows();
  auto catalog = std::make_shared<EngineCatalog>(store, env, std::move(options),
                                                 std::move(registry), std::move(dirty));
  if (may_lack_rows) ARROW_RETURN_NOT_OK(catalog->RegisterWhatIsThere());
  catalog->Start();
  return std::shared_ptr<Catalog>(std::move(catalog));
}

}  // namespace sarissa::engine
