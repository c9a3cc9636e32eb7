// One server process of a simulated world, without HTTP: its view of the disk, a local store,
// faults between them, a catalog with its tables.
//
// Made and used outside tasks: each call runs the scheduler, and with it everybody else, until its
// own task ends. kDeadline when it never does (C12).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "engine/catalog.h"
#include "env/sim/sim_env.h"
#include "object_store/fault_store.h"
#include "object_store/local_store.h"
#include "tests/memwal/rows.h"
#include "tests/simulation/shard_audit.h"

namespace sarissa::simulation {

inline constexpr char kRoot[] = "/data";

class StoreProcess {
 public:
  struct Options {
    uint64_t seed = 1;
    std::string instance_id = "default";
    env::Duration flush_interval{0};
    int64_t memtable_rows = 1'000'000;
    size_t storage_workers = 4;
    uint32_t yield_percent = 50;
    env::Duration max_latency{0};
    env::SimFileSystem::Hook before = nullptr;
    env::SimFileSystem::Hook after = nullptr;
    // Scheduler steps that one call may take.
    uint64_t max_steps = 3'000'000;
  };

  StoreProcess(env::SimScheduler& scheduler, env::SimDisk& disk, Options options)
      : scheduler_(scheduler),
        options_(std::move(options)),
        env_(scheduler, disk,
             {.seed = options_.seed,
              .storage_workers = options_.storage_workers,
              .yield_percent = options_.yield_percent,
              .max_latency = options_.max_latency}) {
    env_.file_system().SetFaultHook(options_.before);
    env_.file_system().SetAfterHook(options_.after);
  }
  ~StoreProcess() { Kill(); }
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;

  // Runs `work` as a task. Repeated use after a failure is fine.
  Status Run(std::function<Status()> work) {
    auto result = std::make_shared<std::optional<Status>>();
    env().storage->Post([result, work = std::move(work)] { *result = work(); });
    scheduler_.RunUntil([&] { return result->has_value(); }, options_.max_steps);
    if (*result) return **result;
    return Error(ErrorKind::kDeadline, "the task never ended");
  }
  template <typename T>
  Result<T> Wait(const env::Future<T>& future) {
    auto result = std::make_shared<std::optional<Result<T>>>();
    future.Then(*env().storage, [result](const Result<T>& value) { *result = value; });
    scheduler_.RunUntil([&] { return result->has_value(); }, options_.max_steps);
    if (*result) return **result;
    return Error(ErrorKind::kDeadline, "the wait never ended");
  }

  // The store as a process that just started finds it; before Open.
  Status OpenStore() {
    return Run([this]() -> Status {
      if (faults_ != nullptr) return Status::OK();
      ARROW_ASSIGN_OR_RAISE(
          local_, object_store::LocalStore::Open(*env().file_system, *env().random, kRoot));
      faults_ = std::make_unique<object_store::FaultStore>(
          *local_, [this](env::Duration delay) { scheduler_.SleepFor(delay); });
      return Status::OK();
    });
  }
  // Finds or creates the store `name`.
  Status Open(const std::string& name) {
    ARROW_RETURN_NOT_OK(OpenStore());
    ARROW_RETURN_NOT_OK(Run([this]() -> Status {
      if (catalog_ == nullptr) {
        engine::CatalogOptions options;
        options.schema = memwal::testing::KeyedBase();
        options.instance_id = options_.instance_id;
        options.flush_interval = options_.flush_interval;
        options.memtable_rows = options_.memtable_rows;
        ARROW_ASSIGN_OR_RAISE(catalog_, engine::Catalog::Open(*faults_, env(), options));
      }
      return Status::OK();
    }));
    auto table = Wait(catalog_->Find(name));
    if (Is(table.status(), ErrorKind::kNotFound)) table = Wait(catalog_->Create(name));
    ARROW_RETURN_NOT_OK(table.status());
    tables_[name] = *table;
    return Status::OK();
  }

  Result<engine::AppendReceipt> Append(const std::string& name,
                                       const memwal::testing::KeyedRows& rows) {
    return Wait(table(name).Append({memwal::testing::UserBatch(rows)}, {}));
  }
  Status Flush(const std::string& name) { return Wait(table(name).Flush()).status(); }
  Result<Shown> Read(const std::string& name) {
    auto shown = std::make_shared<Shown>();
    ARROW_RETURN_NOT_OK(Run([shown, table = tables_.at(name)]() -> Status {
      ARROW_ASSIGN_OR_RAISE(auto stream, table->Scan({}));
      ARROW_ASSIGN_OR_RAISE(*shown, ReadRows(*stream));
      return Status::OK();
    }));
    return *shown;
  }
  // `expectations` outlives the process.
  Status Audit(const std::string& name, const Expectations& expectations) {
    ARROW_RETURN_NOT_OK(OpenStore());
    return Run([this, name, &expectations] {
      return AuditShard(*local_, env(), PathOf(name), options_.instance_id, expectations);
    });
  }

  // Dies at once; SimDisk::Crash says what the disk kept. What its tables promised completes as
  // cancelled, or never.
  void Kill() {
    if (!env_.process().alive()) return;
    env_.Kill();
    tables_.clear();
    catalog_.reset();
    faults_.reset();
    local_.reset();
  }

  static std::string PathOf(const std::string& name) { return name + ".rollout.lance"; }
  bool opened(const std::string& name) const { return tables_.contains(name); }
  engine::Table& table(const std::string& name) { return *tables_.at(name); }
  const std::shared_ptr<engine::Table>& shared_table(const std::string& name) {
    return tables_.at(name);
  }
  object_store::FaultStore& faults() { return *faults_; }
  env::SimFileSystem& file_system() { return env_.file_system(); }
  const env::Env& env() const { return env_.env(); }

 private:
  env::SimScheduler& scheduler_;
  const Options options_;
  env::SimEnv env_;
  std::unique_ptr<object_store::LocalStore> local_;
  std::unique_ptr<object_store::FaultStore> faults_;
  std::shared_ptr<engine::Catalog> catalog_;
  std::map<std::string, std::shared_ptr<engine::Table>> tables_;
};

}  // namespace sarissa::simulation
