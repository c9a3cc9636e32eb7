// The dirty set through restarts, crashes, failing stores and a second process of its instance.
#include "engine/dirty_set.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/checksum.h"
#include "env/sim/sim_env.h"
#include "object_store/fault_store.h"
#include "object_store/local_store.h"
#include "object_store/memory_store.h"
#include "tests/counts.h"

namespace sarissa::engine {
namespace {

using object_store::FaultAction;
using object_store::StoreOperation;
using Marks = std::map<std::string, int64_t>;

Marks MarksOf(const DirtySet& set) {
  Marks marks;
  for (const DirtyTable& table : set.All()) marks[table.name] = table.created_at_ms;
  return marks;
}

class DirtySetTest : public ::testing::Test {
 protected:
  // One server process after the other, or two at once: the set of `instance` as it finds it.
  std::shared_ptr<DirtySet> Open(const std::string& instance = "default") {
    processes_.push_back(std::make_unique<env::SimEnv>(scheduler_, disk_, env::SimEnv::Options{}));
    return DirtySet::Open(
               {.store = &store_, .env = &processes_.back()->env(), .instance_id = instance})
        .ValueOrDie();
  }
  Status Done(const env::Future<env::Unit>& future) {
    scheduler_.RunUntil([&] { return future.IsReady(); });
    if (!future.IsReady()) return Error(ErrorKind::kDeadline, "the wait never ended");
    return future.Get().status();
  }
  Status Mark(DirtySet& set, const std::string& name, int64_t created_at_ms = 1) {
    return Done(set.Mark({name, created_at_ms}));
  }
  std::vector<std::string> Objects() {
    std::vector<std::string> names;
    for (const auto& object : memory_.List("_sarissa/", {.recursive = true}).ValueOrDie().objects)
      names.push_back(object.name);
    return names;
  }
  // The next object that is written takes a second to appear.
  object_store::FaultStore::RuleId SlowWrite() {
    return store_.AddRule({.operation = StoreOperation::kFinish,
                           .nth = 1,
                           .action = FaultAction::kDelay,
                           .delay = std::chrono::seconds(1)});
  }
  void WaitForWrite(object_store::FaultStore::RuleId rule) {
    ASSERT_TRUE(scheduler_.RunUntil([&] { return store_.matches(rule) == 1; }));
  }

  env::SimScheduler scheduler_{1};
  env::SimDisk disk_;
  object_store::MemoryStore memory_;
  object_store::FaultStore store_{memory_,
                                  [this](env::Duration delay) { scheduler_.SleepFor(delay); }};
  std::vector<std::unique_ptr<env::SimEnv>> processes_;
};

TEST_F(DirtySetTest, AReopenFindsTheMarks) {
  const auto set = Open();
  EXPECT_FALSE(set->complete()) << "nothing was there: nobody knows";
  ASSERT_TRUE(Mark(*set, "b", 2).ok());
  ASSERT_TRUE(Mark(*set, "a", 1).ok());
  EXPECT_EQ(set->size(), 2u);
  EXPECT_EQ(set->All().front().name, "a") << "ascending";
  const auto again = Open();
  EXPECT_EQ(MarksOf(*again), (Marks{{"a", 1}, {"b", 2}}));
  EXPECT_EQ(again->Find("b")->created_at_ms, 2);
  EXPECT_FALSE(again->Find("c").has_value());
  EXPECT_FALSE(again->complete());
  EXPECT_EQ(again->damaged_objects(), 0u);
  EXPECT_TRUE(MarksOf(*Open("another instance")).empty());
}

TEST_F(DirtySetTest, AMarkThatIsThereCostsNothing) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "a").ok());
  const size_t objects = Objects().size();
  const auto again = set->Mark({"a", 1});
  EXPECT_TRUE(again.IsReady() && again.Get().ok());
  EXPECT_EQ(Objects().size(), objects);
  ASSERT_TRUE(Mark(*set, "a", 7).ok()) << "another table of this name";
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 7}}));
}

TEST_F(DirtySetTest, ItIsCompleteOnceSomebodyLookedAtAllTables) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "a").ok());
  set->SetComplete();
  EXPECT_TRUE(set->complete());
  ASSERT_TRUE(Done(set->Close()).ok());
  EXPECT_TRUE(Open()->complete());
}

TEST_F(DirtySetTest, ThatItIsCompleteReachesTheDiskAlsoWhenAWriteRuns) {
  const auto set = Open();
  const auto slow = SlowWrite();
  const auto mark = set->Mark({"a", 1});
  WaitForWrite(slow);
  set->SetComplete();
  ASSERT_TRUE(Done(mark).ok());
  scheduler_.RunFor(std::chrono::minutes(1));
  processes_.back()->Kill();
  EXPECT_TRUE(Open()->complete());
}

TEST_F(DirtySetTest, ThatItIsCompleteReachesTheDiskAlsoWhenItIsClosedDuringAWrite) {
  const auto set = Open();
  const auto slow = SlowWrite();
  const auto mark = set->Mark({"a", 1});
  WaitForWrite(slow);
  set->SetComplete();
  ASSERT_TRUE(Done(set->Close()).ok());
  EXPECT_TRUE(mark.IsReady());
  EXPECT_TRUE(Open()->complete());
}

TEST_F(DirtySetTest, AnUnmarkIsForgottenAtOnceAndWrittenLater) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "a").ok());
  set->Unmark("a");
  set->Unmark("never marked");
  EXPECT_FALSE(set->Find("a").has_value());
  EXPECT_EQ(set->size(), 0u);
  scheduler_.RunFor(DirtySet::kUnmarkDelay - std::chrono::milliseconds(1));
  EXPECT_EQ(Objects().size(), 1u) << "no write of its own yet";
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 1}})) << "a superset";
  scheduler_.RunFor(std::chrono::milliseconds(2));
  EXPECT_EQ(Objects().size(), 2u);
  EXPECT_TRUE(MarksOf(*Open()).empty());
  scheduler_.RunFor(std::chrono::minutes(10));
  EXPECT_EQ(Objects().size(), 2u) << "an idle set writes nothing";
}

TEST_F(DirtySetTest, AnUnmarkGoesWithTheNextMark) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "a").ok());
  set->Unmark("a");
  ASSERT_TRUE(Mark(*set, "b").ok());
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"b", 1}}));
  EXPECT_EQ(Objects().size(), 2u);
}

TEST_F(DirtySetTest, MarksThatComeDuringAWriteBecomeOneObject) {
  const auto set = Open();
  const auto slow = SlowWrite();
  const auto first = set->Mark({"first", 1});
  WaitForWrite(slow);
  std::vector<env::Future<env::Unit>> marks;
  for (int i = 0; i < 100; ++i) marks.push_back(set->Mark({fmt::format("t{}", i), i}));
  marks.push_back(set->Mark({"t0", 0}));  // shares the mark that is on its way
  EXPECT_FALSE(first.IsReady());
  for (const auto& mark : marks) EXPECT_FALSE(mark.IsReady());
  for (const auto& mark : marks) ASSERT_TRUE(Done(mark).ok());
  EXPECT_TRUE(first.IsReady());
  EXPECT_EQ(Objects().size(), 2u);
  EXPECT_EQ(MarksOf(*Open()).size(), 101u);
}

TEST_F(DirtySetTest, ASnapshotReplacesWhatPiledUp) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "stays", 7).ok());
  size_t most = 0;
  for (int i = 0; i < 1'500; ++i) {
    ASSERT_TRUE(Mark(*set, fmt::format("t{}", i)).ok());
    set->Unmark(fmt::format("t{}", i));
    most = std::max(most, Objects().size());
  }
  EXPECT_LT(most, 700u) << "two records each, about a thousand dead ones";
  EXPECT_LT(Objects().size(), most);
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"stays", 7}, {"t1499", 1}}));
  ASSERT_TRUE(Done(set->Close()).ok());
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"stays", 7}}));
}

TEST_F(DirtySetTest, ClosingWritesWhatIsQueuedAsOneObject) {
  const auto set = Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Mark(*set, fmt::format("t{}", i)).ok());
  for (int i = 0; i < 19; ++i) set->Unmark(fmt::format("t{}", i));
  const auto last = set->Mark({"last", 3});
  const auto closed = set->Close();
  EXPECT_TRUE(Done(closed).ok());
  EXPECT_TRUE(Done(last).ok()) << "queued before";
  EXPECT_TRUE(Done(set->Close()).ok());
  EXPECT_TRUE(Is(Mark(*set, "late"), ErrorKind::kCancelled));
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"last", 3}, {"t19", 1}}));
  EXPECT_EQ(Objects().size(), 1u);
}

TEST_F(DirtySetTest, ClosingWhatHasNothingToSayWritesNothing) {
  const auto set = Open();
  const auto closed = set->Close();
  EXPECT_TRUE(closed.IsReady() && closed.Get().ok());
  EXPECT_TRUE(Objects().empty());
}

TEST_F(DirtySetTest, ClosingWaitsForAWriteThatRuns) {
  const auto set = Open();
  const auto slow = SlowWrite();
  const auto first = set->Mark({"first", 1});
  WaitForWrite(slow);
  const auto second = set->Mark({"second", 2});
  const auto closed = set->Close();
  EXPECT_FALSE(closed.IsReady());
  EXPECT_TRUE(Done(closed).ok());
  EXPECT_TRUE(first.IsReady() && second.IsReady());
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"first", 1}, {"second", 2}}));
}

TEST_F(DirtySetTest, TwoSetsOfOneInstanceKeepEachOthersMarks) {
  const auto one = Open();
  const auto two = Open();
  std::vector<env::Future<env::Unit>> marks;
  for (int i = 0; i < 50; ++i) {
    marks.push_back(one->Mark({fmt::format("one{}", i), i}));
    marks.push_back(two->Mark({fmt::format("two{}", i), i}));
    if (i % 5 == 0) {
      ASSERT_TRUE(Done(marks.back()).ok());
    }
  }
  for (const auto& mark : marks) ASSERT_TRUE(Done(mark).ok());
  EXPECT_EQ(MarksOf(*Open()).size(), 100u);
  // The snapshot that closing writes comes after marks that 'one' has not seen.
  ASSERT_TRUE(Mark(*two, "late").ok());
  one->Unmark("one0");
  ASSERT_TRUE(Done(one->Close()).ok());
  EXPECT_EQ(Objects().size(), 1u);
  EXPECT_EQ(MarksOf(*Open()).size(), 100u);
  EXPECT_TRUE(Open()->Find("late").has_value());
  ASSERT_TRUE(Mark(*two, "after").ok());
  ASSERT_TRUE(Done(two->Close()).ok());
  EXPECT_EQ(MarksOf(*Open()).size(), 101u);
}

TEST_F(DirtySetTest, AnUnmarkSparesTheNextTableOfTheName) {
  const auto one = Open();
  ASSERT_TRUE(Mark(*one, "a", 1).ok());
  const auto two = Open();
  one->Unmark("a");
  ASSERT_TRUE(Mark(*two, "a", 2).ok()) << "deleted and created again by the other";
  ASSERT_TRUE(Mark(*one, "b", 1).ok());
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 2}, {"b", 1}}));
}

TEST_F(DirtySetTest, DamageIsCountedLeftWhereItIsAndEndsCompleteness) {
  const auto set = Open();
  set->SetComplete();
  ASSERT_TRUE(Mark(*set, "a").ok());
  ASSERT_TRUE(Mark(*set, "b").ok());
  ASSERT_TRUE(Mark(*set, "c").ok());
  const std::string damaged = Objects().at(1);
  std::string bytes = memory_.Get(damaged).ValueOrDie()->ToString();
  bytes[bytes.size() / 2] ^= 1;
  const auto put = [&] {
    return memory_.Put(damaged, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                       object_store::PutMode::kOverwrite);
  };
  ASSERT_TRUE(put().ok());
  const auto again = Open();
  EXPECT_FALSE(again->complete());
  EXPECT_EQ(again->damaged_objects(), 1u);
  EXPECT_EQ(again->size(), 2u) << "the others are read";
  ASSERT_TRUE(Mark(*again, "d").ok());
  ASSERT_TRUE(Done(again->Close()).ok());
  EXPECT_EQ(memory_.Get(damaged).ValueOrDie()->ToString(), bytes);
  EXPECT_TRUE(Open()->Find("d").has_value());
}

TEST_F(DirtySetTest, AfterDamageItIsCompleteAgainOnceSomebodyLookedAtAllTables) {
  auto set = Open();
  ASSERT_TRUE(Mark(*set, "a").ok());
  const std::string damaged = Objects().front();
  ASSERT_TRUE(memory_.Put(damaged, {}, object_store::PutMode::kOverwrite).ok());
  set = Open();
  ASSERT_EQ(set->damaged_objects(), 1u);
  ASSERT_TRUE(Mark(*set, "a").ok());
  EXPECT_FALSE(Open()->complete());
  set->SetComplete();
  EXPECT_TRUE(set->complete());
  scheduler_.RunFor({});
  ASSERT_TRUE(Mark(*set, "b").ok());
  EXPECT_EQ(Objects().front(), damaged) << "kept for whoever wants to look";
  const auto again = Open();
  EXPECT_TRUE(again->complete());
  EXPECT_EQ(MarksOf(*again), (Marks{{"a", 1}, {"b", 1}}));
}

TEST_F(DirtySetTest, WhatIsNotOursInTheFolderIsPassedOver) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "a").ok());
  const std::string folder = Objects().front().substr(0, Objects().front().rfind('/') + 1);
  for (const std::string name : {"README", "1", "99999999999999999999", "00000000000000000000"})
    ASSERT_TRUE(memory_.Put(folder + name, {}, object_store::PutMode::kIfAbsent).ok());
  const auto again = Open();
  EXPECT_EQ(MarksOf(*again), (Marks{{"a", 1}}));
  EXPECT_TRUE(Mark(*again, "b").ok());
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 1}, {"b", 1}}));
}

TEST_F(DirtySetTest, AFailedPutFailsItsMarksOnly) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "before").ok());
  store_.AddRule({.operation = StoreOperation::kFinish,
                  .nth = 1,
                  .status = MakeError(ErrorKind::kNoSpace, "the disk is full")});
  EXPECT_TRUE(Is(Mark(*set, "a"), ErrorKind::kNoSpace));
  EXPECT_FALSE(set->Find("a").has_value());
  EXPECT_TRUE(Mark(*set, "a").ok());
  EXPECT_EQ(MarksOf(*set), (Marks{{"a", 1}, {"before", 1}}));
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 1}, {"before", 1}}));
}

TEST_F(DirtySetTest, AnUnknownOutcomeIsSettledByAnotherPut) {
  for (const FaultAction action :
       {FaultAction::kLandedAnswerLost, FaultAction::kNotLandedAnswerLost}) {
    const std::string instance = fmt::format("instance{}", static_cast<int>(action));
    const auto set = Open(instance);
    store_.ClearRules();
    store_.AddRule({.operation = StoreOperation::kFinish, .nth = 1, .action = action});
    EXPECT_TRUE(Mark(*set, "a").ok());
    EXPECT_EQ(MarksOf(*Open(instance)), (Marks{{"a", 1}}));
    set->Unmark("a");
    EXPECT_TRUE(Mark(*set, "b").ok());
    EXPECT_EQ(MarksOf(*Open(instance)), (Marks{{"b", 1}}));
  }
}

TEST_F(DirtySetTest, AnUnmarkWhosePutFailedDoesNotUndoALaterMark) {
  const auto set = Open();
  ASSERT_TRUE(Mark(*set, "a").ok());
  set->Unmark("a");
  // The write of the unmark is slow and then fails; meanwhile the table is opened again.
  const auto slow = store_.AddRule({.operation = StoreOperation::kCreate,
                                    .nth = 1,
                                    .action = FaultAction::kDelay,
                                    .delay = std::chrono::seconds(1)});
  store_.AddRule({.operation = StoreOperation::kFinish, .nth = 1});
  WaitForWrite(slow);
  ASSERT_TRUE(Mark(*set, "a").ok());
  EXPECT_EQ(MarksOf(*set), (Marks{{"a", 1}}));
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 1}}));
  scheduler_.RunFor(2 * DirtySet::kUnmarkDelay);
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 1}})) << "nor later";
}

TEST_F(DirtySetTest, AMarkWhosePutFailedDoesNotTakeALaterOneWithIt) {
  const auto set = Open();
  const auto slow = store_.AddRule({.operation = StoreOperation::kCreate,
                                    .nth = 1,
                                    .action = FaultAction::kDelay,
                                    .delay = std::chrono::seconds(1)});
  store_.AddRule({.operation = StoreOperation::kFinish, .nth = 1});
  const auto first = set->Mark({"a", 1});
  WaitForWrite(slow);
  set->Unmark("a");
  const auto second = set->Mark({"a", 1});
  EXPECT_FALSE(Done(first).ok());
  ASSERT_TRUE(Done(second).ok());
  EXPECT_EQ(MarksOf(*set), (Marks{{"a", 1}}));
  ASSERT_TRUE(Done(set->Close()).ok());
  EXPECT_EQ(MarksOf(*Open()), (Marks{{"a", 1}}));
}

// The store is slow, fails and loses answers, processes die, come back and close. A mark that was
// answered is found until it is taken back, whatever else was on its way; what nobody marked never
// is; and after a clean end exactly what is marked.
TEST_F(DirtySetTest, AgreesWithAModelOverRestarts) {
  constexpr FaultAction kActions[] = {FaultAction::kFail, FaultAction::kLandedAnswerLost,
                                      FaultAction::kNotLandedAnswerLost};
  const uint64_t seed = tests::SeedFor("DirtySetTest.AgreesWithAModelOverRestarts");
  struct LastMark {
    int64_t created_at_ms = 0;
    env::Future<env::Unit> answer;
    bool Durable() const { return answer.IsReady() && answer.Get().ok(); }
  };
  for (uint64_t history = 0; history < tests::kDirtySetHistories; ++history) {
    SCOPED_TRACE(fmt::format("seed {}, history {}", seed, history));
    env::SimRandom random(seed + history);
    const std::string instance = fmt::format("instance{}", history);
    auto set = Open(instance);
    std::map<std::string, LastMark> last;  // of what was not unmarked since
    std::map<std::string, std::set<int64_t>> ever;
    const auto check = [&](const std::string& when) {
      const Marks found = MarksOf(*set);
      for (const auto& [name, mark] : last) {
        if (!mark.Durable()) continue;
        ASSERT_TRUE(found.contains(name)) << name << " is lost " << when;
        ASSERT_EQ(found.at(name), mark.created_at_ms) << name << " " << when;
      }
      for (const auto& [name, time] : found)
        ASSERT_TRUE(ever[name].contains(time)) << name << " was never marked, " << when;
    };
    for (int step = 0; step < 80; ++step) {
      const std::string name = fmt::format("t{}", random.Below(4));
      switch (random.Below(12)) {
        default: {
          const auto time = static_cast<int64_t>(random.Below(8) == 0 ? 1 : 0);
          ever[name].insert(time);
          last[name] = {time, set->Mark({name, time})};
          break;
        }
        case 5:
        case 6:
        case 7:
          set->Unmark(name);
          last.erase(name);
          break;
        case 8:
          store_.ClearRules();
          store_.AddRule({.operation = StoreOperation::kCreate,
                          .nth = 1,
                          .action = FaultAction::kDelay,
                          .delay = std::chrono::milliseconds(500)});
          store_.AddRule({.operation = StoreOperation::kFinish,
                          .nth = 1 + random.Below(2),
                          .action = kActions[random.Below(std::size(kActions))]});
          break;
        case 9:
          scheduler_.RunFor(std::chrono::milliseconds(random.Below(7'000)));
          break;
        case 10:
          if (random.Below(4) > 0) break;
          if (random.Below(2) == 0) (void)Done(set->Close());
          processes_.back()->Kill();
          set = Open(instance);
          check(fmt::format("after the restart at step {}", step));
          // The new process knows what it found, and nothing of answers that never came.
          std::erase_if(last, [](const auto& entry) { return !entry.second.Durable(); });
          break;
      }
      if (random.Below(2) == 0) scheduler_.RunFor(std::chrono::milliseconds(random.Below(600)));
      check(fmt::format("at step {}", step));
      if (HasFatalFailure()) return;
    }
    store_.ClearRules();
    ASSERT_TRUE(Mark(*set, "last").ok());
    for (auto mark = last.begin(); mark != last.end();) {
      const bool durable = Done(mark->second.answer).ok();
      mark = durable ? std::next(mark) : last.erase(mark);
    }
    Marks marked;
    for (const auto& [name, mark] : last) marked[name] = mark.created_at_ms;
    for (const DirtyTable& table : set->All())
      if (!marked.contains(table.name)) set->Unmark(table.name);
    ASSERT_TRUE(Done(set->Close()).ok());
    ASSERT_EQ(MarksOf(*Open(instance)), marked);
    set.reset();
    processes_.clear();
  }
}

// Power fails at each step that changes the disk.
TEST(DirtySetCrash, AMarkThatWasAnsweredIsThereAfterACrashAtAnyStep) {
  for (uint64_t step = 1;; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    bool finished = false;
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}", seed));
      env::SimDisk disk;
      env::SimScheduler scheduler(seed);
      std::set<std::string> answered;
      {
        env::SimEnv world(scheduler, disk, {.seed = seed});
        world.file_system().SetFaultHook([&](const env::SimOperation& operation) {
          if (env::IsMutation(operation.kind) && disk.mutations() + 1 == step) world.Kill();
          return Status::OK();
        });
        std::unique_ptr<object_store::LocalStore> store;
        std::shared_ptr<DirtySet> set;
        world.env().storage->Post([&] {
          store = object_store::LocalStore::Open(world.file_system(), *world.env().random, "/data")
                      .ValueOrDie();
          set =
              DirtySet::Open({.store = store.get(), .env = &world.env(), .instance_id = "default"})
                  .ValueOrDie();
          for (const std::string name : {"a", "b", "c", "d"}) {
            world.env().storage->Post([&, name] {
              set->Mark({name, 1}).Then(*world.env().storage, [&, name](const auto& marked) {
                if (!marked.ok()) return;
                answered.insert(name);
                // All are marked: the snapshot that Close writes must not lose them.
                if (answered.size() == 4) (void)set->Close();
              });
            });
          }
        });
        EXPECT_TRUE(scheduler.RunUntilIdle());
        finished = world.process().alive();
        world.Kill();
      }
      disk.Crash(scheduler.random(), env::SimDisk::CrashMode::kRandom);
      env::SimEnv world(scheduler, disk, {.seed = seed});
      const auto store =
          object_store::LocalStore::Open(world.file_system(), *world.env().random, "/data")
              .ValueOrDie();
      const auto set =
          DirtySet::Open({.store = store.get(), .env = &world.env(), .instance_id = "default"})
              .ValueOrDie();
      EXPECT_EQ(set->damaged_objects(), 0u);
      for (const std::string& name : answered) ASSERT_TRUE(set->Find(name).has_value()) << name;
      if (finished) {
        EXPECT_EQ(answered.size(), 4u);
      }
    }
    if (finished) break;
    ASSERT_LT(step, 1'000u);
  }
}

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

DirtyGroup RandomGroup(env::SimRandom& random) {
  DirtyGroup group;
  group.snapshot = random.Below(2) == 0;
  group.complete = random.Below(2) == 0;
  for (uint64_t records = random.Below(20); records > 0; --records) {
    std::string name(random.Below(12) == 0 ? random.Below(3'000) : random.Below(20), '\0');
    for (char& c : name) c = static_cast<char>(random.Next());
    group.records.push_back({random.Below(2) == 0, {name, static_cast<int64_t>(random.Next())}});
  }
  return group;
}

TEST(DirtyGroupBytes, AGroupComesBackAsItWas) {
  const uint64_t seed = tests::SeedFor("DirtyGroupBytes.AGroupComesBackAsItWas");
  SCOPED_TRACE(fmt::format("seed {}", seed));
  env::SimRandom random(seed);
  for (int i = 0; i < tests::kFormatCases; ++i) {
    const DirtyGroup group = RandomGroup(random);
    const auto decoded = DecodeDirtyGroup(Bytes(EncodeDirtyGroup(group)));
    ASSERT_TRUE(decoded.has_value());
    ASSERT_EQ(decoded->snapshot, group.snapshot);
    ASSERT_EQ(decoded->complete, group.complete);
    ASSERT_EQ(decoded->records.size(), group.records.size());
    for (size_t record = 0; record < group.records.size(); ++record) {
      ASSERT_EQ(decoded->records[record].mark, group.records[record].mark);
      ASSERT_EQ(decoded->records[record].table.name, group.records[record].table.name);
      ASSERT_EQ(decoded->records[record].table.created_at_ms,
                group.records[record].table.created_at_ms);
    }
  }
}

TEST(DirtyGroupBytes, EveryBitFlipAndEveryTruncationIsSeen) {
  DirtyGroup group{.snapshot = true, .complete = true, .records = {}};
  group.records.push_back({true, {"exp-1", 1'700'000'000'000}});
  group.records.push_back({false, {"", -1}});
  group.records.push_back({true, {std::string(40, 'x'), INT64_MIN}});
  const std::string bytes = EncodeDirtyGroup(group);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(DecodeDirtyGroup(Bytes(bytes.substr(0, length))).has_value()) << length;
  EXPECT_FALSE(DecodeDirtyGroup(Bytes(bytes + '\0')).has_value());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeDirtyGroup(Bytes(flipped)).has_value()) << "bit " << bit;
  }
}

// Bytes with a good checksum that no writer of ours made: refused or read, never over-read.
TEST(DirtyGroupBytes, LiesUnderAGoodChecksumAreRefused) {
  const uint64_t seed = tests::SeedFor("DirtyGroupBytes.LiesUnderAGoodChecksumAreRefused");
  SCOPED_TRACE(fmt::format("seed {}", seed));
  env::SimRandom random(seed);
  const auto with_checksum = [](std::string body) {
    AppendCrc32c(body);
    return body;
  };
  DirtyGroup group;
  group.records.push_back({true, {"exp", 1}});
  std::string body = EncodeDirtyGroup(group);
  body.resize(body.size() - 4);
  ASSERT_TRUE(DecodeDirtyGroup(Bytes(with_checksum(body))).has_value());
  for (const auto& [at, byte] : std::vector<std::pair<size_t, char>>{
           {0, 'X'}, {4, 9}, {8, 0}, {8, 2}, {11, '\x7f'}, {22, 2}, {22, 4}, {23, '\x7f'}}) {
    std::string lie = body;
    lie[at] = byte;
    EXPECT_FALSE(DecodeDirtyGroup(Bytes(with_checksum(lie))).has_value()) << "byte " << at;
  }
  for (int i = 0; i < tests::kFormatCases; ++i) {
    std::string lie = EncodeDirtyGroup(RandomGroup(random));
    lie.resize(lie.size() - 4);
    for (uint64_t edits = 1 + random.Below(4); edits > 0; --edits)
      lie[random.Below(lie.size())] = static_cast<char>(random.Next());
    lie.resize(random.Below(4) == 0 ? random.Below(lie.size()) : lie.size());
    const auto decoded = DecodeDirtyGroup(Bytes(with_checksum(lie)));
    if (decoded) {
      ASSERT_LE(decoded->records.size(), lie.size() / 12);
    }
  }
}

}  // namespace
}  // namespace sarissa::engine
