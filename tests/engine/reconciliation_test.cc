// What a start finds on disk and in the registry, and makes of it without being asked.
#include "engine/reconciliation.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "env/posix/posix_env.h"
#include "memwal/names.h"
#include "memwal/shard_manifest.h"
#include "object_store/fault_store.h"
#include "object_store/memory_store.h"
#include "tests/engine/waiting_catalog.h"
#include "tests/memwal/rows.h"

namespace sarissa::engine {
namespace {

using memwal::testing::KeyedBase;
using memwal::testing::UserBatch;
using testing::CreateNow;
using testing::FindNow;

constexpr env::Duration kWait = std::chrono::seconds(60);

// Remembers what was told, and lets a test wait for it.
class Events final : public env::EventLog {
 public:
  void Write(Level, std::string_view event, const Fields& fields) override {
    std::map<std::string, std::string> seen;
    for (const auto& [key, value] : fields) seen.emplace(key, value);
    const std::scoped_lock lock(mutex_);
    seen_.emplace_back(event, std::move(seen));
    change_.notify_all();
  }
  // The fields of the first such event; empty when it does not come.
  std::map<std::string, std::string> WaitFor(const std::string& event) {
    std::unique_lock lock(mutex_);
    const std::map<std::string, std::string>* found = nullptr;
    change_.wait_for(lock, kWait, [&] {
      for (const auto& [name, fields] : seen_)
        if (name == event) found = &fields;
      return found != nullptr;
    });
    std::string told;
    for (const auto& [name, fields] : seen_) told += " " + name;
    EXPECT_NE(found, nullptr) << event << " was not told, but" << told;
    return found == nullptr ? std::map<std::string, std::string>() : *found;
  }
  std::set<std::string> StoresOf(const std::string& event) {
    const std::scoped_lock lock(mutex_);
    std::set<std::string> stores;
    for (const auto& [name, fields] : seen_)
      if (name == event) stores.insert(fields.at("store"));
    return stores;
  }
  void Clear() {
    const std::scoped_lock lock(mutex_);
    seen_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  std::vector<std::pair<std::string, std::map<std::string, std::string>>> seen_;
};

class ReconciliationTest : public ::testing::Test {
 protected:
  ReconciliationTest()
      : posix_([this] {
          env::PosixEnv::Options options;
          options.events = &events_;
          return options;
        }()) {}

  std::shared_ptr<Catalog> Open(bool reconcile = true) {
    CatalogOptions options;
    options.schema = KeyedBase();
    options.uri_prefix = "./data/";
    options.flush_interval = std::chrono::milliseconds(20);
    options.reconcile = reconcile;
    options.reconcile_settle = std::chrono::milliseconds(1);
    return Catalog::Open(store_, posix_.env(), options).ValueOrDie();
  }
  // A server that dies without a word: what it holds is never flushed.
  void LeaveUnflushed(const std::vector<std::string>& names) {
    CatalogOptions options;
    options.schema = KeyedBase();
    options.uri_prefix = "./data/";
    options.flush_interval = {};
    options.reconcile = false;
    dead_.push_back(Catalog::Open(store_, posix_.env(), options).ValueOrDie());
    for (const std::string& name : names) {
      auto table = FindNow(*dead_.back(), name);
      if (!table.ok()) table = CreateNow(*dead_.back(), name);
      ASSERT_TRUE((*table)->Append({UserBatch({{name, 1}})}, {}).Wait(kWait).ok());
    }
  }
  void MakeFiles(const std::string& name) {
    ASSERT_TRUE(
        lance::Table::Create({&store_, &posix_.env()}, name + ".rollout.lance", KeyedBase(), {})
            .ok());
  }
  void Put(const std::string& name) {
    ASSERT_TRUE(store_.Put(name, {}, object_store::PutMode::kIfAbsent).ok());
  }
  bool Exists(const std::string& name) { return store_.Head(name).ok(); }
  ReconciliationStatus Done(Catalog& catalog) {
    events_.WaitFor("reconciliation_done");
    return catalog.Describe().reconciliation;
  }
  // Rows that another server sees: those in generations and in the base.
  uint64_t Flushed(const std::string& name) {
    const auto manifest =
        memwal::ShardManifestStore(store_, name + ".rollout.lance", ShardId::FromName("default"))
            .ReadNewest()
            .ValueOrDie();
    uint64_t rows = 0;
    if (manifest)
      for (const auto& generation : manifest->sstables()) rows += generation.physical_rows();
    return rows;
  }

  Events events_;
  object_store::MemoryStore memory_;
  object_store::FaultStore store_{memory_};
  env::PosixEnv posix_;
  std::vector<std::shared_ptr<Catalog>> dead_;
};

TEST_F(ReconciliationTest, ATableWithoutARowGetsOne) {
  MakeFiles("copied");
  const auto catalog = Open();
  EXPECT_EQ(Done(*catalog).registered, 1u);
  EXPECT_EQ(events_.StoresOf("store_registered"), std::set<std::string>{"copied"});
  // Its row was being written when that was told.
  auto table = FindNow(*catalog, "copied");
  for (int tries = 0; !table.ok() && tries < 1000; ++tries) table = FindNow(*catalog, "copied");
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE((*table)->Append({UserBatch({{"a", 1}})}, {}).Wait(kWait).ok());
}

TEST_F(ReconciliationTest, ARowWithoutFilesIsReportedAndKept) {
  LeaveUnflushed({"kept", "lost"});
  ASSERT_TRUE(store_.DeletePrefix("lost.rollout.lance/").ok());
  const auto catalog = Open();
  EXPECT_EQ(Done(*catalog).without_files, 1u);
  EXPECT_EQ(events_.StoresOf("store_without_files"), std::set<std::string>{"lost"});
  EXPECT_EQ(catalog->List({}).ValueOrDie().tables.size(), 2u);
  EXPECT_TRUE(Is(FindNow(*catalog, "lost").status(), ErrorKind::kCorrupt));
  EXPECT_TRUE(testing::DeleteNow(*catalog, "lost").ok()) << "only its owner removes it";
}

TEST_F(ReconciliationTest, OnlyWhatHoldsNoDataIsRemoved) {
  Put("begun.rollout.lance/_transactions/0-x.txn");
  Put("strange.rollout.lance/_transactions/0-x.txn");
  Put("strange.rollout.lance/data/rows.lance");
  const auto catalog = Open();
  const ReconciliationStatus status = Done(*catalog);
  EXPECT_EQ(status.removed, 1u);
  EXPECT_EQ(status.unreadable, 1u);
  EXPECT_EQ(status.registered, 0u);
  EXPECT_FALSE(Exists("begun.rollout.lance/_transactions/0-x.txn"));
  EXPECT_TRUE(Exists("strange.rollout.lance/_transactions/0-x.txn"));
  EXPECT_TRUE(Exists("strange.rollout.lance/data/rows.lance"));
  EXPECT_TRUE(CreateNow(*catalog, "begun").ok());
}

TEST_F(ReconciliationTest, RowsAreFlushedThoughTheDirtySetIsLost) {
  LeaveUnflushed({"a", "b", "c"});
  ASSERT_TRUE(store_.DeletePrefix("_sarissa/").ok());
  const auto catalog = Open();
  EXPECT_EQ(events_.WaitFor("reconciliation_started").at("log_tips"), "all");
  EXPECT_EQ(Done(*catalog).dirty, 3u);
  // Nobody asks for them: the sweeper does it.
  const auto flushed = [&] { return Flushed("a") == 1 && Flushed("b") == 1 && Flushed("c") == 1; };
  const auto end = std::chrono::steady_clock::now() + kWait;
  while (!flushed() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_TRUE(flushed());
  // The next start need not look again.
  ASSERT_TRUE(catalog->Close(kWait).ok());
  events_.Clear();
  const auto again = Open();
  EXPECT_EQ(events_.WaitFor("reconciliation_started").at("log_tips"), "none");
  EXPECT_EQ(Done(*again).dirty, 0u);
}

TEST_F(ReconciliationTest, ADamagedDirtySetIsMadeAnew) {
  LeaveUnflushed({"a"});
  const auto listing = store_.List("_sarissa/", {.recursive = true}).ValueOrDie();
  ASSERT_FALSE(listing.objects.empty());
  for (const auto& object : listing.objects) {
    ASSERT_TRUE(store_.Put(object.name, {}, object_store::PutMode::kOverwrite).ok());
  }
  auto catalog = Open();
  EXPECT_EQ(Done(*catalog).dirty, 1u);
  ASSERT_TRUE(catalog->Close(kWait).ok());
  for (const auto& object : listing.objects) EXPECT_TRUE(Exists(object.name)) << "kept as evidence";
  events_.Clear();
  catalog = Open();
  EXPECT_EQ(events_.WaitFor("reconciliation_started").at("log_tips"), "none");
}

TEST_F(ReconciliationTest, AHoleInALogIsToldAndNotTriedAgain) {
  LeaveUnflushed({"a", "b"});
  const auto table = dead_.back();
  ASSERT_TRUE((*FindNow(*table, "a"))->Append({UserBatch({{"x", 2}})}, {}).Wait(kWait).ok());
  const std::string entry =
      memwal::LogEntryName("a.rollout.lance", ShardId::FromName("default"), LogPosition(1));
  ASSERT_TRUE(store_.Delete(entry).ok());
  ASSERT_TRUE(store_.DeletePrefix("_sarissa/").ok());
  const auto catalog = Open();
  const ReconciliationStatus status = Done(*catalog);
  EXPECT_EQ(status.unreadable, 1u);
  EXPECT_EQ(status.dirty, 1u);
  EXPECT_EQ(events_.StoresOf("store_unreadable"), std::set<std::string>{"a"});
}

TEST_F(ReconciliationTest, AListingThatFailsIsTriedAgain) {
  MakeFiles("copied");
  const auto rule =
      store_.AddRule({.operation = object_store::StoreOperation::kList, .name_glob = ""});
  const auto catalog = Open();
  EXPECT_EQ(events_.WaitFor("reconciliation_failed").at("kind"), "unavailable");
  EXPECT_EQ(catalog->Describe().reconciliation.state, ReconciliationStatus::State::kFailed);
  store_.RemoveRule(rule);
}

// The walk over the log tips goes on behind the last place that was noted.
TEST_F(ReconciliationTest, AWalkThatWasStoppedGoesOnWhereItWas) {
  LeaveUnflushed({"a", "b", "c", "d"});
  ASSERT_TRUE(store_.DeletePrefix("_sarissa/").ok());
  const auto make = [&](uint64_t tables_per_second) {
    ReconciliationOptions options;
    options.store = &store_;
    options.env = &posix_.env();
    options.registry = Registry::Open({&store_, &posix_.env()}, "_registry.rollout.lance",
                                      "./data/", ".rollout.lance")
                           .ValueOrDie();
    options.dirty = DirtySet::Open({&store_, &posix_.env(), "default"}).ValueOrDie();
    options.instance_id = "default";
    options.registry_path = "_registry.rollout.lance";
    options.table_suffix = ".rollout.lance";
    options.slice = 1;
    options.place_every = 1;
    options.tables_per_second = tables_per_second;
    return std::pair(std::make_shared<Reconciliation>(options), options.dirty);
  };
  const std::string place = "_sarissa/" + Uuid::FromName("default").ToString() + "/reconciliation";
  const auto [first, first_set] = make(2);
  first->Start();
  while (!Exists(place) && first->status().state == ReconciliationStatus::State::kRunning)
    std::this_thread::yield();
  first->Stop();
  const std::string noted = (*store_.Get(place))->ToString();
  ASSERT_TRUE(noted.starts_with("sarissa reconciliation 1\n")) << noted;
  const std::string last = noted.substr(noted.size() - 1);
  EXPECT_TRUE(first_set->Find(last)) << last << ": a place is behind durable marks";
  EXPECT_FALSE(first_set->complete());
  EXPECT_LT(first->status().examined, 4u);

  const auto [second, second_set] = make(1'000'000);
  second->Start();
  events_.WaitFor("reconciliation_done");
  EXPECT_EQ(events_.StoresOf("store_unreadable"), std::set<std::string>());
  EXPECT_TRUE(second_set->complete());
  EXPECT_EQ(second_set->size(), 4u);
  EXPECT_LT(second->status().dirty, 4u) << "what is behind the place is not looked at again";
  EXPECT_FALSE(Exists(place)) << "nothing stays behind a walk that ended";
}

}  // namespace
}  // namespace sarissa::engine
