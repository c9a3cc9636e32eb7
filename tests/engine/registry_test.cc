// The registry: group commits, races between processes, crashes, paging, other software's rows.
#include "engine/registry.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "env/sim/sim_env.h"
#include "object_store/fault_store.h"
#include "object_store/local_store.h"
#include "object_store/memory_store.h"
#include "tests/counts.h"

namespace sarissa::engine {
namespace {

using env::SimDisk;
using object_store::FaultAction;
using object_store::StoreOperation;
using std::chrono::seconds;

constexpr char kPath[] = "_registry.rollout.lance";

Result<std::shared_ptr<Registry>> OpenRegistry(object_store::ObjectStore& store,
                                               const env::Env& env) {
  return Registry::Open({&store, &env}, kPath, "./data/", ".rollout.lance");
}

TableInfo InfoOf(const std::string& name, int64_t created_at_ms = 1) {
  return {name, "./data/" + name + ".rollout.lance", created_at_ms};
}

std::vector<std::string> NamesOf(Registry& registry, const ListRequest& request = {}) {
  std::vector<std::string> names;
  for (const TableInfo& info : registry.Page(request).ValueOrDie().tables)
    names.push_back(info.name);
  return names;
}

// The rows as any reader of Lance tables sees them: how often each name is there.
std::map<std::string, int> RowsOf(object_store::ObjectStore& store, const env::Env& env) {
  const auto table = lance::Table::Open({&store, &env}, kPath).ValueOrDie();
  auto stream = table->Scan({.columns = std::vector<std::string>{"name"}}).ValueOrDie();
  std::map<std::string, int> rows;
  while (const auto batch = stream->Next().ValueOrDie()) {
    const auto& names = static_cast<const arrow::StringArray&>(*batch->column(0));
    for (int64_t row = 0; row < batch->num_rows(); ++row) ++rows[names.GetString(row)];
  }
  return rows;
}

// Registries over one store in memory.
class RegistryTest : public ::testing::Test {
 protected:
  // As another process has it.
  std::shared_ptr<Registry> Open() {
    processes_.push_back(std::make_unique<env::SimEnv>(scheduler_, disk_, env::SimEnv::Options{}));
    return OpenRegistry(store_, processes_.back()->env()).ValueOrDie();
  }
  Status Done(const env::Future<env::Unit>& future) {
    scheduler_.RunUntil([&] { return future.IsReady(); });
    if (!future.IsReady()) return Error(ErrorKind::kDeadline, "the wait never ended");
    return future.Get().status();
  }
  Status Add(Registry& registry, const std::string& name, int64_t created_at_ms = 1) {
    return Done(registry.Add(InfoOf(name, created_at_ms)));
  }
  Status Remove(Registry& registry, const std::string& name) { return Done(registry.Remove(name)); }
  std::shared_ptr<lance::Table> Newest() {
    return lance::Table::Open({&store_, &processes_.back()->env()}, kPath).ValueOrDie();
  }
  size_t ObjectsIn(const std::string& folder) {
    return memory_.List(kPath + folder, {}).ValueOrDie().objects.size();
  }
  uint64_t Reads() const {
    uint64_t reads = 0;
    for (const StoreOperation operation : {StoreOperation::kOpen, StoreOperation::kRead,
                                           StoreOperation::kHead, StoreOperation::kList})
      reads += store_.calls(operation);
    return reads;
  }

  env::SimScheduler scheduler_{1};
  SimDisk disk_;
  object_store::MemoryStore memory_;
  object_store::FaultStore store_{memory_,
                                  [this](env::Duration delay) { scheduler_.SleepFor(delay); }};
  std::vector<std::unique_ptr<env::SimEnv>> processes_;
};

TEST_F(RegistryTest, WhatWasAddedIsFoundListedAndThereAfterAReopen) {
  const auto registry = Open();
  EXPECT_FALSE(registry->may_lack_rows());
  EXPECT_EQ(registry->size(), 0u);
  ASSERT_TRUE(Add(*registry, "b", 22).ok());
  ASSERT_TRUE(Done(registry->Add({"a", "s3://elsewhere/a", 11})).ok());
  EXPECT_TRUE(Is(Add(*registry, "b"), ErrorKind::kAlreadyExists));
  for (const auto& each : {registry, Open()}) {
    EXPECT_EQ(each->size(), 2u);
    const TablePage page = each->Page({}).ValueOrDie();
    ASSERT_EQ(page.tables.size(), 2u);
    EXPECT_FALSE(page.more);
    EXPECT_EQ(page.tables[0].name, "a");
    EXPECT_EQ(page.tables[0].uri, "s3://elsewhere/a");
    EXPECT_EQ(page.tables[0].created_at_ms, 11);
    EXPECT_EQ(page.tables[1].uri, "./data/b.rollout.lance");
    EXPECT_EQ(each->Find("b").ValueOrDie()->created_at_ms, 22);
    EXPECT_FALSE(each->Find("c").ValueOrDie().has_value());
  }
}

TEST_F(RegistryTest, ARemovedNameIsGoneAndCanBeAddedAgain) {
  const auto registry = Open();
  ASSERT_TRUE(Add(*registry, "a", 1).ok());
  ASSERT_TRUE(Add(*registry, "b", 2).ok());
  ASSERT_TRUE(Remove(*registry, "a").ok());
  EXPECT_FALSE(registry->Find("a").ValueOrDie().has_value());
  EXPECT_TRUE(Remove(*registry, "a").ok()) << "what is not there is fine";
  EXPECT_TRUE(Remove(*registry, "never").ok());
  EXPECT_EQ(NamesOf(*Open()), (std::vector<std::string>{"b"}));
  ASSERT_TRUE(Add(*registry, "a", 3).ok());
  EXPECT_EQ(registry->Find("a").ValueOrDie()->created_at_ms, 3);
  EXPECT_EQ(Open()->Find("a").ValueOrDie()->created_at_ms, 3);
  // In one group: the removal is of what was there before.
  const auto removed = registry->Remove("b");
  const auto added = registry->Add(InfoOf("b", 4));
  EXPECT_TRUE(Done(removed).ok());
  EXPECT_TRUE(Done(added).ok());
  EXPECT_EQ(Open()->Find("b").ValueOrDie()->created_at_ms, 4);
  ASSERT_TRUE(Remove(*registry, "a").ok());
  ASSERT_TRUE(Remove(*registry, "b").ok());
  EXPECT_TRUE(NamesOf(*Open()).empty());
}

TEST_F(RegistryTest, AddsThatComeDuringACommitShareTheNext) {
  const auto registry = Open();
  const TableVersion before = Newest()->version();
  const auto slow = store_.AddRule({.operation = StoreOperation::kFinish,
                                    .name_glob = "*/_versions/*",
                                    .nth = 1,
                                    .action = FaultAction::kDelay,
                                    .delay = seconds(1)});
  const auto first = registry->Add(InfoOf("first"));
  ASSERT_TRUE(scheduler_.RunUntil([&] { return store_.matches(slow) == 1; }));
  std::vector<env::Future<env::Unit>> adds;
  for (int i = 0; i < 500; ++i) adds.push_back(registry->Add(InfoOf(fmt::format("t{}", i))));
  const auto twice = registry->Add(InfoOf("t7"));
  const auto taken = registry->Add(InfoOf("first"));
  for (const auto& add : adds) ASSERT_TRUE(Done(add).ok());
  EXPECT_TRUE(first.IsReady() && first.Get().ok());
  EXPECT_TRUE(Is(Done(twice), ErrorKind::kAlreadyExists));
  EXPECT_TRUE(Is(Done(taken), ErrorKind::kAlreadyExists));
  EXPECT_EQ(Newest()->version().value() - before.value(), 2u);
  EXPECT_EQ(NamesOf(*Open()).size(), 501u);
}

TEST_F(RegistryTest, FragmentsVersionsAndFilesStayFewHoweverManyNamesAreAdded) {
  const auto registry = Open();
  int most_fragments = 0;
  for (int i = 0; i < tests::kRegistryAdds; ++i) {
    ASSERT_TRUE(Add(*registry, fmt::format("t{}", i * 7919 % tests::kRegistryAdds)).ok()) << i;
    scheduler_.RunFor(seconds(1));
    if (i % 16 == 0)
      most_fragments = std::max(most_fragments, Newest()->manifest().fragments_size());
  }
  // 32 of a size class and the one that fills it; fewer than 32^2, 32^3 rows: two, three classes.
  EXPECT_LE(most_fragments, 4 * 33);
  // A version stays for a minute, clean-up comes every 64 commits.
  EXPECT_LE(ObjectsIn("/_versions/"), 60u + 64u + 16u);
  EXPECT_LE(ObjectsIn("/data/"), 4u * 33u + 60u + 64u + 16u) << "files of removed versions go too";
  EXPECT_EQ(registry->size(), static_cast<uint64_t>(tests::kRegistryAdds));
  const auto again = Open();
  EXPECT_EQ(again->size(), static_cast<uint64_t>(tests::kRegistryAdds));
  const auto rows = RowsOf(store_, processes_.back()->env());
  EXPECT_EQ(rows.size(), static_cast<size_t>(tests::kRegistryAdds));
  for (const auto& [name, times] : rows) ASSERT_EQ(times, 1) << name;
  // Rows whose fragments were merged can still be removed, by whoever knew the old fragments.
  for (const auto& each : {registry, again}) {
    const std::string name = NamesOf(*each, {.limit = 1}).front();
    ASSERT_TRUE(Remove(*each, name).ok());
    EXPECT_FALSE(Open()->Find(name).ValueOrDie().has_value());
  }
}

TEST_F(RegistryTest, PagesGiveEachNameOnceAlsoWhileNamesAreAdded) {
  const auto registry = Open();
  std::vector<std::string> there;
  std::vector<env::Future<env::Unit>> adds;
  for (int i = 0; i < 100; ++i) {
    there.push_back(fmt::format("t{:03}", i));
    adds.push_back(registry->Add(InfoOf(there.back())));
  }
  adds.push_back(registry->Add(InfoOf("s")));
  adds.push_back(registry->Add(InfoOf("u")));
  for (const auto& add : adds) ASSERT_TRUE(Done(add).ok());
  const auto other = Open();
  std::vector<std::string> seen;
  ListRequest request{.prefix = "t", .limit = 7};
  for (int pages = 0;; ++pages) {
    ASSERT_LT(pages, 100);
    const TablePage page = registry->Page(request).ValueOrDie();
    for (const TableInfo& info : page.tables) seen.push_back(info.name);
    EXPECT_LE(page.tables.size(), 7u);
    if (!page.more) break;
    ASSERT_EQ(page.tables.size(), 7u);
    request.start_after = seen.back();
    // Before, and after, what was read; by this process and by another.
    ASSERT_TRUE(Add(*registry, fmt::format("t{:03}x", pages)).ok());
    ASSERT_TRUE(Add(*other, fmt::format("t{:03}y", 99 - pages)).ok());
  }
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << "twice";
  std::vector<std::string> of_old;
  for (const std::string& name : seen)
    if (name.size() == 4) of_old.push_back(name);
  EXPECT_EQ(of_old, there);
}

TEST_F(RegistryTest, APageIsCutByPrefixCursorAndLimit) {
  const auto registry = Open();
  for (const std::string name : {"a", "b", "b1", "b2", "c"}) ASSERT_TRUE(Add(*registry, name).ok());
  using Names = std::vector<std::string>;
  EXPECT_EQ(NamesOf(*registry), (Names{"a", "b", "b1", "b2", "c"}));
  EXPECT_EQ(NamesOf(*registry, {.prefix = "b"}), (Names{"b", "b1", "b2"}));
  EXPECT_EQ(NamesOf(*registry, {.prefix = "b", .start_after = "a"}), (Names{"b", "b1", "b2"}));
  EXPECT_EQ(NamesOf(*registry, {.prefix = "b", .start_after = "b"}), (Names{"b1", "b2"}));
  EXPECT_EQ(NamesOf(*registry, {.prefix = "b", .start_after = "b11"}), (Names{"b2"}));
  EXPECT_EQ(NamesOf(*registry, {.prefix = "b", .start_after = "c"}), (Names{}));
  EXPECT_EQ(NamesOf(*registry, {.start_after = "b1", .limit = 1}), (Names{"b2"}));
  EXPECT_EQ(NamesOf(*registry, {.prefix = "x"}), (Names{}));
  EXPECT_TRUE(registry->Page({.prefix = "b", .limit = 2}).ValueOrDie().more);
  EXPECT_FALSE(registry->Page({.prefix = "b", .limit = 3}).ValueOrDie().more)
      << "what follows has another prefix";
}

TEST_F(RegistryTest, ACommitOfAnotherProcessIsSeen) {
  const auto here = Open();
  const auto there = Open();
  ASSERT_TRUE(Add(*there, "a", 7).ok());
  EXPECT_EQ(here->Find("a").ValueOrDie()->created_at_ms, 7);
  EXPECT_TRUE(Is(Add(*here, "a"), ErrorKind::kAlreadyExists));
  ASSERT_TRUE(Remove(*there, "a").ok());
  EXPECT_FALSE(here->Find("a").ValueOrDie().has_value());
  ASSERT_TRUE(Add(*here, "a", 8).ok());
  EXPECT_EQ(there->Find("a").ValueOrDie()->created_at_ms, 8);
  ASSERT_TRUE(Add(*there, "b").ok());
  EXPECT_EQ(NamesOf(*here), (std::vector<std::string>{"a", "b"}));
}

TEST_F(RegistryTest, ARecentLookCostsNoLookAtTheDisk) {
  const auto here = Open();
  const auto there = Open();
  ASSERT_TRUE(Add(*here, "a").ok());
  ASSERT_TRUE(Add(*there, "b").ok());
  const uint64_t reads = Reads();
  scheduler_.RunFor(seconds(9));
  EXPECT_TRUE(here->FindRecent("a", seconds(10)).ValueOrDie().has_value());
  EXPECT_FALSE(here->FindRecent("b", seconds(10)).ValueOrDie().has_value());
  EXPECT_TRUE(here->FindInMemory("a", seconds(10)).has_value());
  scheduler_.RunFor(seconds(2));
  EXPECT_FALSE(here->FindInMemory("a", seconds(10)).has_value()) << "too long ago";
  EXPECT_EQ(Reads(), reads);
  EXPECT_TRUE(here->FindRecent("b", seconds(10)).ValueOrDie().has_value());
  EXPECT_GT(Reads(), reads);
  EXPECT_TRUE(here->FindInMemory("b", seconds(10)).has_value());
}

TEST_F(RegistryTest, ALookAfterALongTimeSeesWhatWasCommittedAndCleanedUpSince) {
  const auto here = Open();
  const auto there = Open();
  const size_t versions = 200;
  for (size_t i = 0; i < versions; ++i) {
    ASSERT_TRUE(Add(*there, fmt::format("t{}", i)).ok());
    scheduler_.RunFor(seconds(1));
  }
  ASSERT_LT(ObjectsIn("/_versions/"), versions) << "the successor of what 'here' knows is gone";
  EXPECT_TRUE(here->Find("t150").ValueOrDie().has_value());
  EXPECT_EQ(NamesOf(*here).size(), versions);
}

TEST_F(RegistryTest, ALookThatFailedIsNoLook) {
  const auto here = Open();
  const auto there = Open();
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Add(*there, fmt::format("t{}", i)).ok());
    scheduler_.RunFor(seconds(1));
  }
  const auto away = store_.AddRule({});
  EXPECT_TRUE(Is(here->Find("t150").status(), ErrorKind::kUnavailable));
  EXPECT_TRUE(Is(here->FindRecent("t150", seconds(10)).status(), ErrorKind::kUnavailable))
      << "the last look is 200 s old, and 't150' is there";
  EXPECT_FALSE(here->FindInMemory("t150", seconds(10)).has_value());
  store_.RemoveRule(away);
  EXPECT_TRUE(here->FindRecent("t150", seconds(10)).ValueOrDie().has_value());
  EXPECT_TRUE(here->Find("t150").ValueOrDie().has_value());
}

TEST_F(RegistryTest, ACommitThatFailsFailsItsNamesOnly) {
  const auto registry = Open();
  ASSERT_TRUE(Add(*registry, "before").ok());
  store_.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*/data/*",
                  .nth = 1,
                  .status = MakeError(ErrorKind::kNoSpace, "the disk is full")});
  EXPECT_TRUE(Is(Add(*registry, "a"), ErrorKind::kNoSpace));
  EXPECT_FALSE(registry->Find("a").ValueOrDie().has_value());
  EXPECT_TRUE(Add(*registry, "a").ok());
  EXPECT_EQ(NamesOf(*Open()), (std::vector<std::string>{"a", "before"}));
}

// As software without our check leaves it.
TEST_F(RegistryTest, ANameThatIsThereTwiceIsListedOnceAndRemovedWhole) {
  const auto registry = Open();
  ASSERT_TRUE(Add(*registry, "a").ok());
  const auto table = Newest();
  for (int writer = 0; writer < 2; ++writer) {
    arrow::StringBuilder names;
    arrow::StringBuilder uris;
    arrow::Int64Builder times;
    for (const std::string name : {"twice", "once"}) {
      if (name == "once" && writer == 1) continue;
      ASSERT_TRUE(names.Append(name).ok() && uris.Append(InfoOf(name).uri).ok());
      ASSERT_TRUE(times.Append(100 + writer).ok());
    }
    const int64_t rows = names.length();
    const auto batch = arrow::RecordBatch::Make(
        arrow::schema({arrow::field("name", arrow::utf8(), false),
                       arrow::field("uri", arrow::utf8(), false),
                       arrow::field("created_at", arrow::int64(), false)}),
        rows,
        {names.Finish().ValueOrDie(), uris.Finish().ValueOrDie(), times.Finish().ValueOrDie()});
    auto appender = table->NewAppender().ValueOrDie();
    ASSERT_TRUE(appender->Write(*batch).ok());
    std::vector<lance::NewFragment> fragments;
    fragments.push_back(appender->Finish().ValueOrDie());
    ASSERT_TRUE(table->CommitAppend(std::move(fragments)).ok());
  }
  ASSERT_EQ(RowsOf(store_, processes_.back()->env()).at("twice"), 2);
  for (const auto& each : {registry, Open()}) {
    EXPECT_EQ(NamesOf(*each), (std::vector<std::string>{"a", "once", "twice"}));
    EXPECT_EQ(NamesOf(*each, {.start_after = "once", .limit = 1}),
              (std::vector<std::string>{"twice"}));
    EXPECT_FALSE(each->Page({.start_after = "once", .limit = 1}).ValueOrDie().more);
    const auto found = each->Find("twice").ValueOrDie();
    ASSERT_TRUE(found.has_value());
    EXPECT_TRUE(found->created_at_ms == 100 || found->created_at_ms == 101);
    EXPECT_TRUE(Is(Add(*each, "twice"), ErrorKind::kAlreadyExists));
  }
  ASSERT_TRUE(Remove(*registry, "twice").ok());
  EXPECT_FALSE(Open()->Find("twice").ValueOrDie().has_value());
  EXPECT_EQ(RowsOf(store_, processes_.back()->env()),
            (std::map<std::string, int>{{"a", 1}, {"once", 1}}));
  ASSERT_TRUE(Add(*registry, "twice").ok());
}

// A process with its own view of a simulated disk.
class Process {
 public:
  Process(env::SimScheduler& scheduler, SimDisk& disk, uint64_t seed)
      : env_(scheduler, disk, {.seed = seed}) {}
  ~Process() { env_.Kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Posts the opening; `then` follows it.
  void Start(std::function<void()> then) {
    env_.env().storage->Post([this, then = std::move(then)] {
      store_ = object_store::LocalStore::Open(env_.file_system(), *env_.env().random, "/data")
                   .ValueOrDie();
      registry_ = OpenRegistry(*store_, env_.env()).ValueOrDie();
      then();
    });
  }
  void Then(const env::Future<env::Unit>& future, std::function<void(const Status&)> what) {
    future.Then(*env_.env().storage,
                [what = std::move(what)](const auto& result) { what(result.status()); });
  }
  void Post(std::function<void()> task) { env_.env().storage->Post(std::move(task)); }

  env::SimEnv& sim() { return env_; }
  Registry& registry() { return *registry_; }
  object_store::LocalStore& store() { return *store_; }

 private:
  env::SimEnv env_;
  std::unique_ptr<object_store::LocalStore> store_;
  std::shared_ptr<Registry> registry_;
};

// Outside of tasks nothing gives way: the disk as whoever comes next finds it.
struct Reader {
  explicit Reader(env::SimScheduler& scheduler, SimDisk& disk) : env(scheduler, disk, {}) {}
  env::SimEnv env;
  std::unique_ptr<object_store::LocalStore> store =
      object_store::LocalStore::Open(env.file_system(), *env.env().random, "/data").ValueOrDie();
  std::shared_ptr<Registry> registry = OpenRegistry(*store, env.env()).ValueOrDie();
  std::map<std::string, int> rows = RowsOf(*store, env.env());
};

TEST(RegistryRace, OfTwoProcessesThatAddOneNameExactlyOneGetsThrough) {
  for (uint64_t seed = 1; seed <= tests::kRegistryHistories; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    env::SimScheduler scheduler(seed);
    SimDisk disk;
    std::map<std::string, std::vector<Status>> answers;
    std::map<std::string, int64_t> winner;
    {
      Process one(scheduler, disk, seed);
      Process two(scheduler, disk, seed + 1000);
      for (Process* process : {&one, &two}) {
        const int64_t first_time = process == &one ? 100 : 200;
        process->Start([&, process, first_time] {
          for (int i = 0; i < 12; ++i) {
            const std::string name = fmt::format("t{}", i / 2);
            const int64_t time = first_time + i;
            process->Post([&, process, name, time] {
              process->Then(process->registry().Add(InfoOf(name, time)),
                            [&, name, time](const Status& status) {
                              answers[name].push_back(status);
                              if (status.ok()) winner[name] = time;
                            });
            });
          }
        });
      }
      ASSERT_TRUE(scheduler.RunUntilIdle());
    }
    const Reader reader(scheduler, disk);
    ASSERT_EQ(answers.size(), 6u);
    for (const auto& [name, each] : answers) {
      ASSERT_EQ(each.size(), 4u);
      int won = 0;
      for (const Status& status : each) {
        won += status.ok() ? 1 : 0;
        ASSERT_TRUE(status.ok() || Is(status, ErrorKind::kAlreadyExists)) << status;
      }
      ASSERT_EQ(won, 1) << name;
      ASSERT_EQ(reader.rows.at(name), 1) << name;
      ASSERT_EQ(reader.registry->Find(name).ValueOrDie()->created_at_ms, winner[name])
          << "the row is the one of who was told so";
    }
  }
}

// Several callers in each of two processes, each with names of its own, one call after the other:
// adds, removals, and the merging of fragments that comes of many. No name comes back, none is
// lost.
TEST(RegistryRace, TwoProcessesEndWithWhatTheirCallersWereTold) {
  const uint64_t seed = tests::SeedFor("RegistryRace.TwoProcessesEndWithWhatTheirCallersWereTold");
  for (uint64_t history = 0; history < tests::kRegistryHistories; ++history) {
    SCOPED_TRACE(fmt::format("seed {}, history {}", seed, history));
    env::SimScheduler scheduler(seed + history);
    env::SimRandom random(seed + history);
    SimDisk disk;
    std::set<std::string> expected;
    std::vector<std::string> wrong;
    int calls = 0;
    {
      Process one(scheduler, disk, history);
      Process two(scheduler, disk, history + 1'000'000);
      std::function<void(Process&, std::string, int)> next = [&](Process& process,
                                                                 const std::string& caller,
                                                                 int left) {
        if (left == 0) return;
        const std::string name = fmt::format("{}-{}", caller, random.Below(8));
        const bool there = expected.contains(name);
        const bool remove = there && random.Below(3) > 0;
        auto answer =
            remove ? process.registry().Remove(name) : process.registry().Add(InfoOf(name));
        process.Then(answer, [&, caller, name, there, remove, left](const Status& status) {
          ++calls;
          const bool right = remove || !there ? status.ok() : Is(status, ErrorKind::kAlreadyExists);
          if (!right) wrong.push_back(fmt::format("{}: {}", name, status.ToString()));
          if (remove) expected.erase(name);
          if (!remove) expected.insert(name);
          next(process, caller, left - 1);
        });
      };
      for (Process* process : {&one, &two}) {
        process->Start([&, process] {
          for (int caller = 0; caller < 3; ++caller)
            next(*process, fmt::format("{}{}", process == &one ? "one" : "two", caller), 40);
        });
      }
      ASSERT_TRUE(scheduler.RunUntilIdle());
    }
    ASSERT_EQ(calls, 2 * 3 * 40);
    ASSERT_TRUE(wrong.empty()) << wrong.front();
    const Reader reader(scheduler, disk);
    std::map<std::string, int> rows;
    for (const std::string& name : expected) rows[name] = 1;
    ASSERT_EQ(reader.rows, rows);
    ASSERT_EQ(reader.registry->size(), expected.size());
  }
}

// Power fails at each step that changes the disk, in commits of new names, of a removal, and in the
// merging of fragments that they set off.
TEST(RegistryCrash, ACrashAtAnyStepLosesNoAnsweredNameAndDoublesNone) {
  env::SimScheduler setup(1);
  SimDisk before;
  std::set<std::string> old_names;
  {
    const auto reader = std::make_unique<Reader>(setup, before);
    for (int i = 0; i < 32; ++i) {  // one fragment each: the next is one too many
      const std::string name = fmt::format("old{}", i);
      old_names.insert(name);
      const auto added = reader->registry->Add(InfoOf(name));
      ASSERT_TRUE(setup.RunUntil([&] { return added.IsReady(); }) && added.Get().ok());
    }
    ASSERT_TRUE(setup.RunUntilIdle());
  }
  bool merged = false;
  for (uint64_t step = 1;; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    bool finished = false;
    for (const auto mode : {SimDisk::CrashMode::kRandom, SimDisk::CrashMode::kDropAllUnsynced,
                            SimDisk::CrashMode::kKeepAll}) {
      SCOPED_TRACE(fmt::format("mode {}", static_cast<int>(mode)));
      const auto disk = before.Clone();
      env::SimScheduler scheduler(step);
      std::set<std::string> answered;
      bool removed = false;
      {
        Process process(scheduler, *disk, step);
        uint64_t mutations = 0;
        process.sim().file_system().SetFaultHook([&](const env::SimOperation& operation) {
          if (env::IsMutation(operation.kind) && ++mutations == step) process.sim().Kill();
          return Status::OK();
        });
        process.Start([&] {
          for (const std::string name : {"a", "b", "c"}) {
            process.Post([&, name] {
              process.Then(process.registry().Add(InfoOf(name)), [&, name](const Status& status) {
                if (!status.ok()) return;
                answered.insert(name);
                if (answered.size() < 3) return;
                process.Then(process.registry().Remove("old5"),
                             [&](const Status& gone) { removed = gone.ok(); });
              });
            });
          }
        });
        EXPECT_TRUE(scheduler.RunUntilIdle());
        finished = process.sim().process().alive();
      }
      disk->Crash(scheduler.random(), mode);
      const Reader reader(scheduler, *disk);
      for (const auto& [name, times] : reader.rows) ASSERT_EQ(times, 1) << name;
      for (const std::string& name : answered) ASSERT_TRUE(reader.rows.contains(name)) << name;
      for (const std::string& name : old_names)
        ASSERT_TRUE(reader.rows.contains(name) || name == "old5") << name;
      if (removed) {
        ASSERT_FALSE(reader.rows.contains("old5"));
      }
      ASSERT_EQ(reader.registry->size(), reader.rows.size());
      // What the crash left behind stands in nobody's way.
      const auto added = reader.registry->Add(InfoOf("after"));
      ASSERT_TRUE(scheduler.RunUntil([&] { return added.IsReady(); }));
      ASSERT_TRUE(added.Get().ok()) << added.Get().status();
      if (finished) {
        EXPECT_EQ(answered.size(), 3u);
        EXPECT_TRUE(removed);
        const auto table =
            lance::Table::Open({reader.store.get(), &reader.env.env()}, kPath).ValueOrDie();
        merged = merged || table->manifest().fragments_size() < 32;
      }
    }
    if (finished) break;
    ASSERT_LT(step, 1'000u);
  }
  EXPECT_TRUE(merged) << "the steps of a merge are among those that were tried";
}

}  // namespace
}  // namespace sarissa::engine
