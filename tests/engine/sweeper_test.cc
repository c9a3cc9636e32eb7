// The sweeper in virtual time, over tables whose flush the test completes.
#include "engine/sweeper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "env/sim/sim_env.h"

namespace sarissa::engine {
namespace {

using env::Duration;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kPeriod = milliseconds(100);

class HeldTables final : public SweptTables {
 public:
  explicit HeldTables(const env::Clock& clock) : clock_(clock) {}

  void SealOpenTables() override { ++seals; }
  std::vector<std::string> ColdDirty() const override { return {dirty.begin(), dirty.end()}; }
  env::Future<env::Unit> FlushCold(const std::string& name) override {
    begun[name].push_back(clock_.Now());
    ++calls;
    most_running = std::max(most_running, running.size() + 1);
    EXPECT_FALSE(running.contains(name)) << "'" << name << "' is being flushed already";
    return running[name].future();
  }

  void Finish(const std::string& name, const Status& status = Status::OK()) {
    auto node = running.extract(name);
    ASSERT_FALSE(node.empty()) << "'" << name << "' is not being flushed";
    if (status.ok()) {
      dirty.erase(name);
      node.mapped().Set(env::Unit{});
    } else {
      node.mapped().Set(status);
    }
  }

  std::set<std::string> dirty;
  std::map<std::string, env::Promise<env::Unit>> running;
  std::map<std::string, std::vector<env::MonotonicTime>> begun;
  size_t most_running = 0;
  int calls = 0;
  int seals = 0;

 private:
  const env::Clock& clock_;
};

class EventList final : public env::EventLog {
 public:
  void Write(Level, std::string_view event, const Fields& fields) override {
    if (event != "flush_of_dirty_store_failed") return;
    for (const auto& [field, value] : fields)
      if (field == "store") ++failures[value];
  }
  std::map<std::string, int> failures;
};

class SweeperTest : public ::testing::Test {
 protected:
  SweeperTest() {
    env_ = process_.env();
    env_.events = &events_;
    tables_ = std::make_shared<HeldTables>(scheduler_.clock());
    sweeper_ = std::make_shared<Sweeper>(tables_, env_, kPeriod);
  }
  ~SweeperTest() override { process_.Kill(); }

  void RunFor(Duration duration) { scheduler_.RunFor(duration); }
  void Finish(const std::string& name, const Status& status = Status::OK()) {
    tables_->Finish(name, status);
    RunFor({});
  }
  void AddDirty(int count) {
    for (int i = 0; i < count; ++i) tables_->dirty.insert(fmt::format("t{:03}", i));
  }

  env::SimScheduler scheduler_{1};
  env::SimDisk disk_;
  env::SimEnv process_{scheduler_, disk_, {}};
  EventList events_;
  env::Env env_;
  std::shared_ptr<HeldTables> tables_;
  std::shared_ptr<Sweeper> sweeper_;
};

const Status kBroken = MakeError(ErrorKind::kUnavailable, "the bucket is away");

TEST_F(SweeperTest, SealsOpenTablesInEachPassAndFlushesNothingThatIsNotMarked) {
  sweeper_->Start();
  RunFor(milliseconds(1050));
  EXPECT_EQ(tables_->seals, 10);
  EXPECT_EQ(tables_->calls, 0);
  EXPECT_EQ(sweeper_->status().passes, 10u);
  EXPECT_EQ(sweeper_->status().running, 0u);
}

TEST_F(SweeperTest, AMarkedTableIsFlushedOnce) {
  sweeper_->Start();
  tables_->dirty = {"a"};
  RunFor(milliseconds(450));
  EXPECT_EQ(tables_->begun["a"].size(), 1u) << "not again while it runs";
  EXPECT_EQ(sweeper_->status().running, 1u);
  Finish("a");
  RunFor(seconds(300));
  EXPECT_EQ(tables_->calls, 1);
  EXPECT_EQ(sweeper_->status().flushed, 1u);
  EXPECT_EQ(sweeper_->status().running, 0u);
  EXPECT_EQ(sweeper_->status().timed_out, 0u);
}

TEST_F(SweeperTest, FlushesSoManyAtOnceAndEachThatEndsMakesRoomAtOnce) {
  AddDirty(100);
  sweeper_->Start();
  RunFor(kPeriod);
  EXPECT_EQ(tables_->running.size(), Sweeper::kParallel);
  // No pass in between: the places are handed on.
  const int passes = tables_->seals;
  while (!tables_->running.empty()) {
    Finish(tables_->running.begin()->first);
    EXPECT_LE(tables_->running.size(), Sweeper::kParallel);
  }
  EXPECT_EQ(tables_->seals, passes);
  EXPECT_EQ(tables_->calls, 100);
  EXPECT_EQ(tables_->most_running, Sweeper::kParallel);
  EXPECT_EQ(sweeper_->status().flushed, 100u);
}

TEST_F(SweeperTest, ATableThatHangsDelaysNoOther) {
  AddDirty(100);
  sweeper_->Start();
  const auto hangs = [](const std::string& name) { return name < "t020"; };
  const auto begin = scheduler_.clock().Now();
  while (tables_->dirty.size() > 20 && scheduler_.clock().Now() - begin < seconds(60)) {
    RunFor(milliseconds(10));
    const auto running = tables_->ColdDirty();
    for (const std::string& name : running)
      if (!hangs(name) && tables_->running.contains(name)) Finish(name);
  }
  EXPECT_EQ(tables_->dirty.size(), 20u) << "all others are flushed";
  // Twenty take every place twice, and then four of them are left.
  EXPECT_LE(scheduler_.clock().Now() - begin, 2 * Sweeper::kPlaceLimit + seconds(1));
  EXPECT_EQ(sweeper_->status().flushed, 80u);
  EXPECT_EQ(sweeper_->status().timed_out, 16u);
  EXPECT_EQ(sweeper_->status().running, 20u);
  RunFor(Sweeper::kPlaceLimit);
  EXPECT_EQ(sweeper_->status().timed_out, 20u);
}

TEST_F(SweeperTest, ATableThatLostItsPlaceCanStillEndWell) {
  tables_->dirty = {"a"};
  sweeper_->Start();
  RunFor(kPeriod + Sweeper::kPlaceLimit + seconds(1));
  EXPECT_EQ(sweeper_->status().timed_out, 1u);
  EXPECT_EQ(tables_->begun["a"].size(), 1u) << "it still runs";
  Finish("a");
  EXPECT_EQ(sweeper_->status().flushed, 1u);
  // Its place was given back once: there are as many as before.
  AddDirty(20);
  RunFor(kPeriod);
  EXPECT_EQ(tables_->running.size(), Sweeper::kParallel);
}

TEST_F(SweeperTest, ATableThatHangsForEverIsTriedAgain) {
  tables_->dirty = {"a"};
  sweeper_->Start();
  RunFor(kPeriod + Sweeper::kTableLimit - seconds(1));
  EXPECT_EQ(tables_->begun["a"].size(), 1u);
  const auto hanging = tables_->running.extract("a");  // it never answers
  RunFor(seconds(3));
  ASSERT_EQ(tables_->begun["a"].size(), 2u);
  EXPECT_GE(tables_->begun["a"][1] - tables_->begun["a"][0],
            Sweeper::kTableLimit + Sweeper::kFirstDelay);
  EXPECT_EQ(events_.failures["a"], 1);
}

TEST_F(SweeperTest, TheDelayAfterFailuresGrowsToALimit) {
  tables_->dirty = {"a", "good"};
  sweeper_->Start();
  std::vector<Duration> expected;
  for (Duration delay = Sweeper::kFirstDelay; expected.size() < 10;
       delay = std::min<Duration>(2 * delay, Sweeper::kLastDelay))
    expected.push_back(delay);
  for (size_t failures = 1; failures <= expected.size(); ++failures) {
    ASSERT_TRUE(scheduler_.RunUntil([&] { return tables_->running.contains("a"); }));
    ASSERT_EQ(tables_->begun["a"].size(), failures);
    Finish("a", kBroken);
    if (failures == 1) Finish("good");
  }
  ASSERT_TRUE(scheduler_.RunUntil([&] { return tables_->running.contains("a"); }));
  for (size_t i = 0; i < expected.size(); ++i) {
    const Duration delay = tables_->begun["a"][i + 1] - tables_->begun["a"][i];
    EXPECT_GE(delay, expected[i]) << i;
    EXPECT_LE(delay, expected[i] + 2 * kPeriod) << i;
  }
  EXPECT_EQ(events_.failures["a"], 1) << "one cause is told once";
  EXPECT_EQ(tables_->begun["good"].size(), 1u);
}

TEST_F(SweeperTest, ASuccessForgetsFormerFailures) {
  tables_->dirty = {"a"};
  sweeper_->Start();
  for (int failures = 0; failures < 5; ++failures) {
    ASSERT_TRUE(scheduler_.RunUntil([&] { return tables_->running.contains("a"); }));
    Finish("a", kBroken);
  }
  ASSERT_TRUE(scheduler_.RunUntil([&] { return tables_->running.contains("a"); }));
  Finish("a");
  RunFor(Sweeper::kLastDelay);
  tables_->dirty = {"a"};
  ASSERT_TRUE(scheduler_.RunUntil([&] { return tables_->running.contains("a"); }));
  const auto failed_at = scheduler_.clock().Now();
  Finish("a", kBroken);
  ASSERT_TRUE(scheduler_.RunUntil([&] { return tables_->running.contains("a"); }));
  EXPECT_LE(scheduler_.clock().Now() - failed_at, Sweeper::kFirstDelay + 2 * kPeriod);
  EXPECT_EQ(events_.failures["a"], 2) << "told anew after a success";
}

// A table that is marked again at once must not take all places from the others.
TEST_F(SweeperTest, TablesThatAreMarkedAgainAtOnceLetOthersIn) {
  AddDirty(30);
  sweeper_->Start();
  RunFor(kPeriod);
  for (int ended = 0; ended < 30; ++ended) {
    ASSERT_FALSE(tables_->running.empty());
    const std::string name = tables_->running.begin()->first;
    Finish(name);
    tables_->dirty.insert(name);
  }
  EXPECT_EQ(tables_->begun.size(), 30u) << "each had its turn";
}

TEST_F(SweeperTest, NothingBeginsAfterStop) {
  AddDirty(20);
  sweeper_->Start();
  RunFor(kPeriod);
  ASSERT_EQ(tables_->running.size(), Sweeper::kParallel);
  const int calls = tables_->calls;
  const int seals = tables_->seals;
  sweeper_->Stop();
  Finish(tables_->running.begin()->first);
  Finish(tables_->running.begin()->first, kBroken);
  RunFor(seconds(300));
  EXPECT_EQ(tables_->calls, calls);
  EXPECT_EQ(tables_->seals, seals);
  EXPECT_EQ(sweeper_->status().flushed, 1u) << "what ran ended by itself";
}

TEST_F(SweeperTest, ASweeperOutlivesItsTablesAndEndsWithIts) {
  AddDirty(3);
  sweeper_->Start();
  RunFor(kPeriod);
  ASSERT_EQ(tables_->running.size(), 3u);
  tables_.reset();
  RunFor(seconds(10));
  const std::weak_ptr<Sweeper> weak = sweeper_;
  sweeper_.reset();
  EXPECT_TRUE(weak.expired()) << "no timer keeps it";
  RunFor(seconds(300));
}

}  // namespace
}  // namespace sarissa::engine
