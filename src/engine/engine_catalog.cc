#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "engine/catalog.h"
#include "engine/engine_table.h"
#include "engine/registry.h"

namespace sarissa::engine {
namespace {

// The sweeper looks at the open tables this often, at most; it looks at nothing else.
constexpr env::Duration kSweepPeriod = std::chrono::seconds(1);
constexpr env::Duration kOpenTimeout = std::chrono::seconds(120);
// How long a delete waits for appends that are on their way.
constexpr env::Duration kQuiesceTimeout = std::chrono::seconds(60);
// A writer's close ends by its own deadline; only a wedged executor needs this one.
constexpr env::Duration kCloseGrace = std::chrono::seconds(2);

class EngineCatalog final : public Catalog, public std::enable_shared_from_this<EngineCatalog> {
 public:
  EngineCatalog(object_store::ObjectStore& store, const env::Env& env, CatalogOptions options,
                std::unique_ptr<Registry> registry)
      : store_(store),
        env_(env),
        options_(std::make_shared<const CatalogOptions>(std::move(options))),
        registry_(std::move(registry)) {}

  void StartSweeper() { ScheduleSweep(); }

  // Stores that are on disk and not in the registry get their row back.
  Status RegisterWhatIsThere() {
    ARROW_ASSIGN_OR_RAISE(const auto listing, store_.List("", {}));
    for (const std::string& folder : listing.folders) {
      const std::string path = folder.substr(0, folder.size() - 1);
      if (path == options_->registry_path || !path.ends_with(options_->table_suffix)) continue;
      const std::string name = path.substr(0, path.size() - options_->table_suffix.size());
      ARROW_ASSIGN_OR_RAISE(const auto registered, registry_->Find(name));
      if (registered) continue;
      ARROW_RETURN_NOT_OK(Register(name));
    }
    return Status::OK();
  }

  Result<std::shared_ptr<Table>> Create(const std::string& name) override {
    ARROW_ASSIGN_OR_RAISE(const auto turn, TakeTurn(name));
    ARROW_ASSIGN_OR_RAISE(const auto registered, registry_->Find(name));
    if (registered) return Error(ErrorKind::kAlreadyExists, "store '{}' exists already", name);
    const std::string path = PathOf(name);
    lance::CreateOptions create;
    create.version = options_->file_version;
    // Tells a table from one of the same name that was deleted before it.
    create.config["sarissa.incarnation"] = env_.random->NextUuid().ToString();
    auto made = lance::Table::Create({&store_, &env_}, path, options_->schema, create);
    // Files without a registry row: an earlier create stopped half way, or other software made the
    // table. It is adopted.
    if (!made.ok() && !Is(made.status(), ErrorKind::kAlreadyExists)) return made.status();
    ARROW_ASSIGN_OR_RAISE(auto table,
                          EngineTable::Open(store_, env_, options_, claims_, name, path));
    ARROW_RETURN_NOT_OK(Register(name));
    return Publish(name, std::move(table));
  }

  Result<std::shared_ptr<Table>> Find(const std::string& name) override {
    {
      const std::scoped_lock lock(mutex_);
      if (closed_) return Closed();
      if (const auto found = tables_.find(name); found != tables_.end()) {
        found->second.last_use = ++uses_;
        return std::shared_ptr<Table>(found->second.table);
      }
    }
    ARROW_ASSIGN_OR_RAISE(const auto turn, TakeTurn(name));
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = tables_.find(name); found != tables_.end()) {
        return std::shared_ptr<Table>(found->second.table);
      }
    }
    ARROW_ASSIGN_OR_RAISE(const auto registered, registry_->Find(name));
    if (!registered) return Error(ErrorKind::kNotFound, "store '{}' does not exist", name);
    auto table = EngineTable::Open(store_, env_, options_, claims_, name, PathOf(name));
    if (!table.ok()) {
      // A registered store whose files are missing is damage, not an unknown name.
      if (Is(table.status(), ErrorKind::kNotFound))
        return WithKind(table.status(), ErrorKind::kCorrupt);
      return table.status();
    }
    return Publish(name, *std::move(table));
  }

  Result<std::vector<TableInfo>> List() override {
    {
      const std::scoped_lock lock(mutex_);
      if (closed_) return Closed();
    }
    ARROW_ASSIGN_OR_RAISE(const auto all, registry_->All());
    std::vector<TableInfo> infos;
    infos.reserve(all.size());
    for (const auto& [name, info] : all) infos.push_back(info);
    return infos;
  }

  Status Delete(const std::string& name) override {
    ARROW_ASSIGN_OR_RAISE(const auto turn, TakeTurn(name));
    ARROW_ASSIGN_OR_RAISE(const auto registered, registry_->Find(name));
    if (!registered) return Error(ErrorKind::kNotFound, "store '{}' does not exist", name);
    std::shared_ptr<EngineTable> table;
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = tables_.find(name); found != tables_.end()) {
        table = found->second.table;
        tables_.erase(found);
      }
    }
    if (table != nullptr) {
      const auto stopped = table->Close(memwal::CloseMode::kDiscard).Wait(kQuiesceTimeout);
      if (!stopped.ok())
        return Annotate(stopped.status(), "the writer of store '" + name + "' does not stop");
    }
    ARROW_RETURN_NOT_OK(store_.DeletePrefix(PathOf(name) + "/"));
    claims_->Forget(PathOf(name));
    return registry_->Remove(name);
  }

  std::string UriOf(const std::string& name) const override {
    return options_->uri_prefix + PathOf(name);
  }

  uint64_t open_tables() const override {
    const std::scoped_lock lock(mutex_);
    return tables_.size();
  }

  CatalogHealth Health() const override {
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

  Status Evict(const std::string& name, env::Duration deadline) override {
    ARROW_ASSIGN_OR_RAISE(const auto turn, TakeTurn(name));
    std::shared_ptr<EngineTable> table;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = tables_.find(name);
      if (found == tables_.end()) return Status::OK();
      table = found->second.table;
    }
    const auto report =
        table->Close(memwal::CloseMode::kFlush, deadline).Wait(deadline + kCloseGrace);
    const Status cause = report.ok() ? report->cause : report.status();
    if (Is(cause, ErrorKind::kDeadline)) {
      return Error(ErrorKind::kFailedWriter, "store '{}' does not drain: {}", name,
                   cause.message());
    }
    table->RememberClaim();
    const std::scoped_lock lock(mutex_);
    tables_.erase(name);
    return Status::OK();
  }

  Status Close(env::Duration deadline) override {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;  // nothing is published from here on
      env_.storage->CancelTimer(sweep_timer_);
    }
    const std::vector<std::shared_ptr<EngineTable>> tables = OpenTables();
    std::vector<env::Future<memwal::CloseReport>> closing;
    for (const auto& table : tables)
      closing.push_back(table->Close(memwal::CloseMode::kFlush, deadline));
    const env::MonotonicTime end = env_.clock->Now() + deadline + kCloseGrace;
    std::string unflushed;
    for (size_t i = 0; i < tables.size(); ++i) {
      const env::Duration left = std::max(env::Duration(0), end - env_.clock->Now());
      const auto report = closing[i].Wait(left);
      if (report.ok() && report->only_in_log.empty()) continue;
      unflushed += fmt::format("{}{}{}", unflushed.empty() ? "" : ", ", tables[i]->name(),
                               OnlyInLog(report));
    }
    const std::scoped_lock lock(mutex_);
    tables_.clear();
    if (unflushed.empty()) return Status::OK();
    return Error(ErrorKind::kFailedWriter, "rows are only in the log of: {}", unflushed);
  }

 private:
  struct OpenTable {
    std::shared_ptr<EngineTable> table;
    uint64_t last_use = 0;
  };
  // Create, first open and delete of one name take turns; held across I/O, the only thing that is
  // (S11). The turn ends when the object dies.
  using Turn = std::shared_ptr<void>;

  // " (generations 3 4: why)"
  static std::string OnlyInLog(const Result<memwal::CloseReport>& report) {
    if (!report.ok()) return fmt::format(" ({})", report.status().message());
    std::string generations;
    for (const Generation generation : report->only_in_log)
      generations += fmt::format(" {}", generation);
    return fmt::format(" (generations{}{}{})", generations, report->cause.ok() ? "" : ": ",
                       report->cause.ok() ? "" : report->cause.message());
  }

  std::vector<std::shared_ptr<EngineTable>> OpenTables() const {
    const std::scoped_lock lock(mutex_);
    std::vector<std::shared_ptr<EngineTable>> tables;
    tables.reserve(tables_.size());
    for (const auto& [name, open] : tables_) tables.push_back(open.table);
    return tables;
  }

  static Status Closed() { return Error(ErrorKind::kCancelled, "the server is shutting down"); }

  std::string PathOf(const std::string& name) const { return name + options_->table_suffix; }

  Result<Turn> TakeTurn(const std::string& name) {
    for (;;) {
      env::Future<env::Unit> running;
      {
        const std::scoped_lock lock(mutex_);
        if (closed_) return Closed();
        const auto found = turns_.find(name);
        if (found == turns_.end()) {
          auto promise = std::make_shared<env::Promise<env::Unit>>();
          turns_.emplace(name, promise->future());
          return Turn(nullptr, [self = shared_from_this(), name, promise](void*) {
            {
              const std::scoped_lock end(self->mutex_);
              self->turns_.erase(name);
            }
            promise->Set(env::Unit{});
          });
        }
        running = found->second;
      }
      const auto ended = running.Wait(kOpenTimeout);
      if (!ended.ok() && Is(ended.status(), ErrorKind::kDeadline)) {
        return Error(ErrorKind::kDeadline, "store '{}' is being opened or deleted for too long",
                     name);
      }
    }
  }

  Status Register(const std::string& name) {
    const auto now = env_.clock->WallNow().time_since_epoch();
    return registry_->Add(
        {name, UriOf(name), std::chrono::duration_cast<std::chrono::milliseconds>(now).count()});
  }

  Result<std::shared_ptr<Table>> Publish(const std::string& name,
                                         std::shared_ptr<EngineTable> table) {
    const std::scoped_lock lock(mutex_);
    if (closed_) return Closed();
    tables_[name] = {table, ++uses_};
    return std::shared_ptr<Table>(std::move(table));
  }

  void ScheduleSweep() {
    const bool by_age = options_->flush_interval.count() > 0;
    const env::Duration period =
        by_age ? std::min(kSweepPeriod, options_->flush_interval) : kSweepPeriod;
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    sweep_timer_ = env_.storage->PostAfter(period, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Sweep();
    });
  }

  // Memtables are the part of the budget that a flush gives back.
  bool UnderMemoryPressure() const {
    const int64_t limit = env_.budget->limit();
    return limit > 0 && (env_.budget->waiting() > 0 || env_.budget->used() > limit / 10 * 7);
  }

  // The largest first, until what they give back is enough: a store that holds much and gets no
  // writes would never seal itself.
  void RelieveMemory(const std::vector<std::shared_ptr<EngineTable>>& tables) {
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
  }

  void Sweep() {
    const std::vector<std::shared_ptr<EngineTable>> tables = OpenTables();
    const env::MonotonicTime now = env_.clock->Now();
    const bool by_age = options_->flush_interval.count() > 0;
    if (UnderMemoryPressure()) RelieveMemory(tables);
    for (const auto& table : tables) {
      const auto oldest = table->oldest_unflushed();
      if (oldest && by_age && now - *oldest >= options_->flush_interval) table->SealForAge();
    }
    ScheduleSweep();
  }

  object_store::ObjectStore& store_;
  const env::Env& env_;
  const std::shared_ptr<const CatalogOptions> options_;
  const std::unique_ptr<Registry> registry_;
  const std::shared_ptr<ClaimLedger> claims_ = std::make_shared<ClaimLedger>();

  // Before a table's lock in the lock order; not held across I/O.
  mutable std::mutex mutex_;
  bool closed_ = false;
  uint64_t uses_ = 0;
  env::TimerId sweep_timer_ = 0;
  std::unordered_map<std::string, OpenTable> tables_;
  std::unordered_map<std::string, env::Future<env::Unit>> turns_;
};

}  // namespace

Result<std::shared_ptr<Catalog>> Catalog::Open(object_store::ObjectStore& store,
                                               const env::Env& env, CatalogOptions options) {
  ARROW_ASSIGN_OR_RAISE(auto registry, Registry::Open({&store, &env}, options.registry_path));
  const bool may_lack_rows = registry->may_lack_rows();
  auto catalog =
      std::make_shared<EngineCatalog>(store, env, std::move(options), std::move(registry));
  if (may_lack_rows) ARROW_RETURN_NOT_OK(catalog->RegisterWhatIsThere());
  catalog->StartSweeper();
  return std::shared_ptr<Catalog>(std::move(catalog));
}

}  // namespace sarissa::engine
