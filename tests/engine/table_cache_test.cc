// The cache of open tables, over tables whose opening, draining and closing the test completes.
#include "engine/table_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "env/posix/posix_env.h"
#include "env/sim/sim_env.h"
#include "env/sim/sim_random.h"
#include "tests/counts.h"

namespace sarissa::engine {
namespace {

using TableFuture = env::Future<std::shared_ptr<Table>>;

// A table that only the cache looks at: it counts what it is asked for and holds the answers back.
class HeldTable final : public CachedTable, public Table {
 public:
  explicit HeldTable(std::string name) : name_(std::move(name)) {}

  Table& table() override { return *this; }
  env::Future<env::Unit> Drain(env::Duration) override {
    ++drains;
    draining.emplace();
    return draining->future();
  }
  bool NeedsDrain() const override { return dirty; }
  env::Future<env::Unit> CloseForEviction(env::Duration) override {
    ++closes;
    closing.emplace();
    return closing->future();
  }

  const std::string& name() const override { return name_; }
  TableVersion version() const override { return TableVersion(1); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  env::Future<AppendReceipt> Append(std::vector<std::shared_ptr<arrow::RecordBatch>>,
                                    env::Reservation) override {
    return env::Future<AppendReceipt>::Ready(NotHere());
  }
  env::Future<FlushReport> Flush() override { return env::Future<FlushReport>::Ready(NotHere()); }
  Result<std::unique_ptr<lance::BatchStream>> Scan(const ReadOptions&) override {
    return NotHere();
  }
  Result<TableVersion> Checkout(std::optional<TableVersion>) override { return NotHere(); }
  Result<std::shared_ptr<arrow::RecordBatch>> Get(
      std::string_view, const std::optional<std::vector<std::string>>&) override {
    return NotHere();
  }

  bool dirty = false;
  int drains = 0;
  int closes = 0;
  std::optional<env::Promise<env::Unit>> draining;
  std::optional<env::Promise<env::Unit>> closing;

 private:
  static Status NotHere() { return Error(ErrorKind::kUnsupported, "only the cache looks at it"); }

  const std::string name_;
  const std::shared_ptr<arrow::Schema> schema_ = arrow::schema({});
};

struct Told {
  std::string name;
  bool left = false;
  Status drained;
};

// One cache in virtual time.
class CacheWorld {
 public:
  explicit CacheWorld(TableCacheOptions options, uint64_t seed = 1) : scheduler_(seed) {
    cache_ = std::make_shared<TableCache>(
        process_.env(), options, [this](const TableCache::Eviction& eviction) {
          told.push_back({eviction.name, eviction.left, eviction.drained});
        });
  }
  // What is not complete yet holds the cache.
  ~CacheWorld() {
    process_.Kill();
    openings_.clear();
    for (const auto& [name, tables] : tables_) {
      for (const auto& table : tables) {
        table->draining.reset();
        table->closing.reset();
      }
    }
  }
  CacheWorld(const CacheWorld&) = delete;
  CacheWorld& operator=(const CacheWorld&) = delete;

  TableCache& cache() { return *cache_; }
  TableCacheCounts counts() const { return cache_->counts(); }
  // Runs what can run now, while time stands still.
  void Settle() { scheduler_.RunFor({}); }
  void RunFor(env::Duration duration) { scheduler_.RunFor(duration); }

  TableFuture Find(const std::string& name) {
    auto found = cache_->Find(name, [this, name] {
      ++opens_[name];
      openings_[name].emplace_back();
      return openings_[name].back().future();
    });
    Settle();
    return found;
  }
  int opens(const std::string& name) { return opens_[name]; }
  void FinishOpen(const std::string& name, const Status& status = Status::OK()) {
    auto& waiting = openings_[name];
    ASSERT_EQ(waiting.size(), 1u) << "opens of '" << name << "' that run at once";
    if (status.ok()) {
      tables_[name].push_back(std::make_shared<HeldTable>(name));
      waiting.front().Set(TableCache::CachedPtr(tables_[name].back()));
    } else {
      waiting.front().Set(status);
    }
    waiting.clear();
    Settle();
  }
  // Finds and opens: the lease.
  std::shared_ptr<Table> Open(const std::string& name) {
    const auto found = Find(name);
    FinishOpen(name);
    return found.IsReady() ? found.Get().ValueOr(nullptr) : nullptr;
  }
  // Opens and lets go.
  HeldTable& OpenIdle(const std::string& name, bool dirty = false) {
    auto lease = Open(name);
    table(name).dirty = dirty;
    lease.reset();
    Settle();
    return table(name);
  }
  // The one that was opened last.
  HeldTable& table(const std::string& name) { return *tables_.at(name).back(); }
  const TableCache::CachedPtr cached(const std::string& name) { return tables_.at(name).back(); }

  // A drain that succeeds has saved every row.
  void FinishDrain(const std::string& name, const Status& status = Status::OK()) {
    HeldTable& held = table(name);
    ASSERT_TRUE(held.draining.has_value()) << "'" << name << "' is not being drained";
    auto promise = std::exchange(held.draining, std::nullopt);
    if (status.ok()) {
      held.dirty = false;
      promise->Set(env::Unit{});
    } else {
      promise->Set(status);
    }
    Settle();
  }
  void FinishClose(const std::string& name, const Status& status = Status::OK()) {
    HeldTable& held = table(name);
    ASSERT_TRUE(held.closing.has_value()) << "'" << name << "' is not being closed";
    auto promise = std::exchange(held.closing, std::nullopt);
    promise->Set(status.ok() ? Result<env::Unit>(env::Unit{}) : Result<env::Unit>(status));
    Settle();
  }
  void Drop(std::shared_ptr<Table>& lease) {
    lease.reset();
    Settle();
  }

  std::vector<Told> told;

 private:
  env::SimScheduler scheduler_;
  env::SimDisk disk_;
  env::SimEnv process_{scheduler_, disk_, {}};
  std::map<std::string, int> opens_;
  std::map<std::string, std::vector<env::Promise<TableCache::CachedPtr>>> openings_;
  std::map<std::string, std::vector<std::shared_ptr<HeldTable>>> tables_;
  std::shared_ptr<TableCache> cache_;
};

const Status kBroken = MakeError(ErrorKind::kUnavailable, "the bucket is away");

TEST(TableCache, ConcurrentFindersShareOneOpen) {
  CacheWorld world({});
  std::vector<TableFuture> finders;
  for (int i = 0; i < 5; ++i) finders.push_back(world.Find("a"));
  EXPECT_EQ(world.opens("a"), 1);
  EXPECT_EQ(world.counts().opening, 1u);
  world.FinishOpen("a");
  for (const TableFuture& finder : finders) {
    ASSERT_TRUE(finder.IsReady());
    EXPECT_EQ(finder.Get().ValueOrDie().get(), &world.table("a"));
  }
  EXPECT_EQ(world.Find("a").Get().ValueOrDie().get(), &world.table("a")) << "open: at once";
  EXPECT_EQ(world.opens("a"), 1);
  EXPECT_EQ(world.counts().resident, 1u);
  EXPECT_EQ(world.counts().leased, 1u) << "one table, however many hold it";
  finders.clear();
  world.Settle();
  EXPECT_EQ(world.counts().leased, 0u);
}

TEST(TableCache, AnOpenThatFailsIsToldToAllAndTriedAnewLater) {
  CacheWorld world({});
  const auto first = world.Find("a");
  const auto second = world.Find("a");
  world.FinishOpen("a", kBroken);
  for (const TableFuture& finder : {first, second}) {
    ASSERT_TRUE(finder.IsReady());
    EXPECT_TRUE(Is(finder.Get().status(), ErrorKind::kUnavailable)) << finder.Get().status();
  }
  EXPECT_FALSE(world.cache().Contains("a"));
  EXPECT_NE(world.Open("a"), nullptr);
  EXPECT_EQ(world.opens("a"), 2);
}

TEST(TableCache, AFailedOpenGivesItsPlaceToTheNextInLine) {
  CacheWorld world({.capacity = 1});
  const auto broken = world.Find("a");
  const auto next = world.Find("b");
  EXPECT_EQ(world.opens("b"), 0);
  world.FinishOpen("a", kBroken);
  EXPECT_EQ(world.opens("b"), 1);
  world.FinishOpen("b");
  EXPECT_TRUE(next.IsReady() && next.Get().ok());
}

TEST(TableCache, FindersWaitInLineWhileEveryPlaceIsInUseAndAreServedInOrder) {
  CacheWorld world({.capacity = 2});
  auto a = world.Open("a");
  auto b = world.Open("b");
  const auto c = world.Find("c");
  const auto d = world.Find("d");
  EXPECT_EQ(world.counts().waiting, 2u);
  EXPECT_EQ(world.counts().draining, 0u) << "nobody who uses a table is cut off";
  EXPECT_EQ(world.opens("c") + world.opens("d"), 0);

  world.Drop(b);
  EXPECT_EQ(world.opens("c"), 0) << "not before the one that leaves is closed";
  world.FinishClose("b");
  EXPECT_EQ(world.opens("c"), 1);
  EXPECT_EQ(world.opens("d"), 0);
  const auto late = world.Find("e");
  world.Drop(a);
  world.FinishClose("a");
  EXPECT_EQ(world.opens("d"), 1);
  EXPECT_EQ(world.opens("e"), 0) << "who came last does not pass those in line";
  world.FinishOpen("c");
  world.FinishOpen("d");
  EXPECT_TRUE(c.IsReady() && c.Get().ok());
  EXPECT_TRUE(d.IsReady() && d.Get().ok());
  EXPECT_FALSE(late.IsReady());
}

TEST(TableCache, AFinderInLineIsToldThatTheCacheIsFull) {
  // Whatever comes first of what happens at the moment of the timeout.
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    CacheWorld world({.capacity = 1, .open_timeout = std::chrono::seconds(10)}, seed);
    auto lease = world.Open("a");
    const auto waiting = world.Find("b");
    world.RunFor(std::chrono::milliseconds(9990));
    EXPECT_FALSE(waiting.IsReady());
    world.RunFor(std::chrono::milliseconds(20));
    ASSERT_TRUE(waiting.IsReady());
    EXPECT_TRUE(Is(waiting.Get().status(), ErrorKind::kOverloaded)) << waiting.Get().status();
    EXPECT_EQ(world.counts().waiting, 0u);
    world.Drop(lease);
    EXPECT_EQ(world.opens("b"), 0) << "nobody waits for it any more";
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

TEST(TableCache, AnOpenThatTakesTooLongEndsTheWaitAndIsThereForTheNextFinder) {
  CacheWorld world({.open_timeout = std::chrono::seconds(10)});
  const auto first = world.Find("a");
  world.RunFor(std::chrono::seconds(11));
  ASSERT_TRUE(first.IsReady());
  EXPECT_TRUE(Is(first.Get().status(), ErrorKind::kDeadline)) << first.Get().status();
  world.FinishOpen("a");
  EXPECT_EQ(world.counts().leased, 0u) << "who gave up holds nothing";
  EXPECT_TRUE(world.Find("a").Get().ok());
  EXPECT_EQ(world.opens("a"), 1);
}

TEST(TableCache, AFinderInLineGetsTheTableThatAnotherOneOpenedMeanwhile) {
  CacheWorld world({.capacity = 1});
  auto held = world.Open("held");
  const auto a = world.Find("a");
  const auto b = world.Find("b");
  const auto again = world.Find("a");
  world.Drop(held);
  world.FinishClose("held");
  world.FinishOpen("a");
  ASSERT_TRUE(a.IsReady());
  EXPECT_FALSE(b.IsReady());
  EXPECT_TRUE(again.IsReady()) << "the table is open, and needs no place of its own";
}

TEST(TableCache, DrainsBeginBeforeTheLastPlaceIsTaken) {
  CacheWorld world({.capacity = 8});
  for (int i = 0; i < 7; ++i) world.OpenIdle(fmt::format("t{}", i), /*dirty=*/true);
  EXPECT_EQ(world.counts().draining, 0u);
  const auto eighth = world.Open("t7");
  EXPECT_EQ(world.counts().draining, 1u);
  EXPECT_EQ(world.table("t0").drains, 1);
  world.FinishDrain("t0");
  world.FinishClose("t0");
  EXPECT_EQ(world.counts().resident, 7u);
  EXPECT_EQ(world.counts().draining, 0u);
}

TEST(TableCache, TheLeastRecentlyUsedLeavesFirst) {
  CacheWorld world({.capacity = 4});
  for (const std::string name : {"a", "b", "c"}) world.OpenIdle(name);
  EXPECT_TRUE(world.Find("a").Get().ok()) << "used again, and let go";
  world.Settle();
  auto in_use = world.Find("b").Get().ValueOrDie();
  std::vector<std::string> left;
  for (const std::string name : {"d", "e", "f"}) {
    world.OpenIdle(name);
    for (const std::string old : {"a", "b", "c", "d", "e", "f"}) {
      if (!world.cache().Contains(old) || !world.table(old).closing) continue;
      left.push_back(old);
      world.FinishClose(old);
    }
  }
  EXPECT_EQ(left, (std::vector<std::string>{"c", "a", "d"}));
  EXPECT_EQ(world.counts().evictions, 3u);
  EXPECT_EQ(world.counts().evictions_undrained, 0u);
  ASSERT_EQ(world.told.size(), 3u);
  EXPECT_EQ(world.told[0].name, "c");
  EXPECT_TRUE(world.told[0].left && world.told[0].drained.ok());
}

TEST(TableCache, NothingIsClosedBeforeItIsDrained) {
  CacheWorld world({.capacity = 1});
  const HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  const auto b = world.Find("b");
  EXPECT_EQ(a.drains, 1);
  EXPECT_EQ(a.closes, 0);
  EXPECT_EQ(world.opens("b"), 0);
  world.FinishDrain("a");
  EXPECT_EQ(a.closes, 1);
  EXPECT_EQ(world.opens("b"), 0);
  world.FinishClose("a");
  EXPECT_EQ(world.opens("b"), 1);
}

TEST(TableCache, AFinderCallsADrainOff) {
  CacheWorld world({.capacity = 1});
  const HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  const auto b = world.Find("b");
  ASSERT_EQ(a.drains, 1);
  std::shared_ptr<Table> lease;
  {
    const auto again = world.Find("a");
    ASSERT_TRUE(again.IsReady());
    lease = again.Get().ValueOrDie();
  }
  world.FinishDrain("a");
  EXPECT_EQ(a.closes, 0) << "in use again";
  EXPECT_FALSE(b.IsReady());
  world.Drop(lease);
  EXPECT_EQ(a.closes, 1);
  world.FinishClose("a");
  EXPECT_EQ(world.opens("a"), 1);
  EXPECT_EQ(world.opens("b"), 1);
}

TEST(TableCache, RowsThatCameDuringADrainAreDrainedToo) {
  CacheWorld world({.capacity = 1});
  HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  const auto b = world.Find("b");
  ASSERT_EQ(a.drains, 1);
  ASSERT_TRUE(world.Find("a").Get().ok());
  // Appended, and let go, before the drain ends: it covers only what was there before.
  auto promise = std::exchange(a.draining, std::nullopt);
  promise->Set(env::Unit{});
  world.Settle();
  EXPECT_EQ(a.closes, 0);
  EXPECT_EQ(a.drains, 2);
  world.FinishDrain("a");
  EXPECT_EQ(a.closes, 1);
}

TEST(TableCache, ATableThatDoesNotDrainStaysOpenBesideTheCapacity) {
  CacheWorld world({.capacity = 1});
  HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  const auto b = world.Find("b");
  world.FinishDrain("a", kBroken);
  EXPECT_EQ(a.closes, 0);
  EXPECT_EQ(world.opens("b"), 1) << "the finder does not wait for a store that is away";
  EXPECT_EQ(world.counts().evictions, 0u);
  EXPECT_EQ(world.counts().evictions_undrained, 1u);
  ASSERT_EQ(world.told.size(), 1u);
  EXPECT_EQ(world.told[0].name, "a");
  EXPECT_FALSE(world.told[0].left);
  EXPECT_TRUE(Is(world.told[0].drained, ErrorKind::kUnavailable));
  world.FinishOpen("b");
  EXPECT_TRUE(b.IsReady() && b.Get().ok());
  EXPECT_EQ(world.counts().resident, 2u);
  EXPECT_EQ(world.Find("a").Get().ValueOrDie().get(), &a) << "and is found without an open";
}

TEST(TableCache, ADrainThatFailedIsTriedAgainAfterTheDelay) {
  CacheWorld world({.capacity = 1, .retry_delay = std::chrono::seconds(5)});
  const HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  const auto b = world.Find("b");
  world.FinishDrain("a", kBroken);
  world.FinishOpen("b");
  world.RunFor(std::chrono::seconds(4));
  world.cache().Rebalance();
  world.Settle();
  EXPECT_EQ(a.drains, 1) << "not before the delay has passed";
  world.RunFor(std::chrono::seconds(2));
  world.cache().Rebalance();
  world.Settle();
  ASSERT_EQ(a.drains, 2);
  world.FinishDrain("a");
  world.FinishClose("a");
  EXPECT_EQ(world.counts().resident, 1u);
  EXPECT_EQ(world.counts().evictions, 1u);
  ASSERT_EQ(world.told.size(), 2u);
  EXPECT_TRUE(world.told[1].left && world.told[1].drained.ok());
}

TEST(TableCache, AnEvictionThatDoesNotDrainSaysSoAndMayBeRepeated) {
  CacheWorld world({.capacity = 1});
  HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  const auto evicted = world.cache().Evict("a", std::chrono::seconds(30));
  world.Settle();
  world.FinishDrain("a", kBroken);
  ASSERT_TRUE(evicted.IsReady());
  EXPECT_TRUE(Is(evicted.Get().status(), ErrorKind::kFailedWriter)) << evicted.Get().status();
  EXPECT_EQ(a.closes, 0);
  const auto again = world.cache().Evict("a", std::chrono::seconds(30));
  world.Settle();
  ASSERT_EQ(a.drains, 2);
  world.FinishDrain("a");
  world.FinishClose("a");
  EXPECT_TRUE(again.IsReady() && again.Get().ok());
}

TEST(TableCache, ADrainBesideTheCapacityMakesNobodyInLineWait) {
  CacheWorld world({.capacity = 1, .retry_delay = std::chrono::seconds(5)});
  const HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  auto b_found = world.Find("b");
  world.FinishDrain("a", kBroken);
  world.FinishOpen("b");
  auto b = b_found.Get().ValueOrDie();
  b_found = {};
  world.RunFor(std::chrono::seconds(6));
  const auto c = world.Find("c");
  ASSERT_EQ(a.drains, 2) << "its delay is over, and somebody wants a place";
  world.Drop(b);
  EXPECT_EQ(world.table("b").closes, 1) << "the drain of 'a' hangs, and frees no place anyway";
}

TEST(TableCache, ATableThatNoFlushCanSaveIsClosedAllTheSame) {
  CacheWorld world({.capacity = 1});
  HeldTable& a = world.OpenIdle("a", /*dirty=*/true);
  const auto b = world.Find("b");
  a.dirty = false;  // fenced while it drained
  auto promise = std::exchange(a.draining, std::nullopt);
  promise->Set(MakeError(ErrorKind::kFenced, "epoch 7 owns the shard"));
  world.Settle();
  world.FinishClose("a");
  EXPECT_EQ(world.opens("b"), 1);
  EXPECT_EQ(world.counts().evictions, 1u);
  EXPECT_EQ(world.counts().evictions_undrained, 1u);
  ASSERT_EQ(world.told.size(), 1u);
  EXPECT_TRUE(world.told[0].left);
  EXPECT_TRUE(Is(world.told[0].drained, ErrorKind::kFenced));
}

TEST(TableCache, ACloseThatFailsIsCountedAndTheTableLeaves) {
  CacheWorld world({.capacity = 1});
  world.OpenIdle("a");
  const auto b = world.Find("b");
  world.FinishClose("a", MakeError(ErrorKind::kFailedWriter, "rows are only in the log"));
  EXPECT_EQ(world.opens("b"), 1);
  EXPECT_EQ(world.counts().evictions_undrained, 1u);
  ASSERT_EQ(world.told.size(), 1u);
  EXPECT_TRUE(world.told[0].left);
  EXPECT_TRUE(Is(world.told[0].drained, ErrorKind::kFailedWriter));
}

TEST(TableCache, AFinderOfATableThatIsBeingClosedWaitsAndOpensItAnew) {
  CacheWorld world({.capacity = 4});
  world.OpenIdle("a");
  const auto evicted = world.cache().Evict("a", std::chrono::seconds(30));
  world.Settle();
  const auto first = world.Find("a");
  const auto second = world.Find("a");
  EXPECT_EQ(world.opens("a"), 1) << "never two live ones of a name";
  EXPECT_FALSE(first.IsReady());
  const HeldTable* old = &world.table("a");
  world.FinishClose("a");
  EXPECT_TRUE(evicted.IsReady() && evicted.Get().ok());
  EXPECT_EQ(world.opens("a"), 2);
  world.FinishOpen("a");
  ASSERT_TRUE(first.IsReady() && second.IsReady());
  EXPECT_EQ(first.Get().ValueOrDie(), second.Get().ValueOrDie());
  EXPECT_NE(first.Get().ValueOrDie().get(), old);
}

TEST(TableCache, OneCapacityServesAllNamesInTurn) {
  CacheWorld world({.capacity = 1});
  for (int round = 0; round < 30; ++round) {
    const std::string name = fmt::format("t{}", round % 3);
    const std::string before = fmt::format("t{}", (round + 2) % 3);
    const auto found = world.Find(name);
    if (round > 0) {
      ASSERT_EQ(world.counts().resident, 1u);
      world.FinishDrain(before);
      world.FinishClose(before);
    }
    world.FinishOpen(name);
    ASSERT_TRUE(found.IsReady() && found.Get().ok());
    world.table(name).dirty = true;
    EXPECT_EQ(world.counts().resident, 1u);
  }
  EXPECT_EQ(world.counts().evictions, 29u);
}

TEST(TableCache, WhatIsOpenCanBeSeenWithoutALease) {
  CacheWorld world({.capacity = 4});
  EXPECT_EQ(world.cache().Peek("a"), nullptr);
  world.OpenIdle("a");
  world.OpenIdle("b", /*dirty=*/true);
  const auto opening = world.Find("c");
  const auto evicted = world.cache().Evict("b", std::chrono::seconds(30));
  world.Settle();
  EXPECT_EQ(world.cache().Open().size(), 2u) << "one that drains is still open";
  EXPECT_EQ(world.cache().Peek("a"), world.cached("a"));
  EXPECT_EQ(world.cache().Peek("c"), nullptr);
  EXPECT_TRUE(world.cache().Contains("c"));
  EXPECT_EQ(world.counts().leased, 0u);
}

TEST(TableCache, AnEvictionWaitsForThoseWhoHoldTheTable) {
  CacheWorld world({});
  auto first = world.Open("a");
  auto second = world.Find("a").Get().ValueOrDie();
  world.table("a").dirty = true;
  const auto evicted = world.cache().Evict("a", std::chrono::seconds(30));
  world.Settle();
  world.Drop(first);
  EXPECT_EQ(world.table("a").drains, 0);
  world.Drop(second);
  world.FinishDrain("a");
  EXPECT_FALSE(evicted.IsReady());
  world.FinishClose("a");
  EXPECT_TRUE(evicted.IsReady() && evicted.Get().ok());
  EXPECT_FALSE(world.cache().Contains("a"));
  const auto nothing = world.cache().Evict("a", std::chrono::seconds(30));
  EXPECT_TRUE(nothing.IsReady() && nothing.Get().ok());
}

TEST(TableCache, AnEvictionDuringTheOpenHappensAfterIt) {
  CacheWorld world({});
  auto found = world.Find("a");
  const auto evicted = world.cache().Evict("a", std::chrono::seconds(30));
  world.FinishOpen("a");
  ASSERT_TRUE(found.IsReady() && found.Get().ok());
  EXPECT_FALSE(evicted.IsReady());
  found = {};
  world.Settle();
  world.FinishClose("a");
  EXPECT_TRUE(evicted.IsReady() && evicted.Get().ok());
}

TEST(TableCache, AnEvictionOfATableThatIsHeldForEverEnds) {
  CacheWorld world({});
  const auto lease = world.Open("a");
  const auto evicted = world.cache().Evict("a", std::chrono::seconds(30));
  world.RunFor(std::chrono::seconds(61));
  ASSERT_TRUE(evicted.IsReady());
  EXPECT_FALSE(evicted.Get().ok());
  EXPECT_EQ(world.Find("a").Get().ValueOrDie(), lease) << "and nobody was cut off";
}

TEST(TableCache, EvictingTheCleanSparesDirtyAndUsedTables) {
  CacheWorld world({});
  world.OpenIdle("oldest");
  const HeldTable& dirty = world.OpenIdle("dirty", /*dirty=*/true);
  const auto used = world.Open("used");
  world.OpenIdle("second");
  world.OpenIdle("newest");
  world.cache().EvictClean(2);
  world.Settle();
  EXPECT_EQ(world.table("oldest").closes, 1);
  EXPECT_EQ(world.table("second").closes, 1);
  EXPECT_EQ(world.table("newest").closes, 0) << "two were asked for";
  world.cache().EvictClean(9);
  world.Settle();
  EXPECT_EQ(world.table("newest").closes, 1);
  EXPECT_EQ(dirty.drains + dirty.closes, 0);
  EXPECT_EQ(world.table("used").closes, 0);
}

TEST(TableCache, TakeGivesTheOpenTableAndKeepsFindersOutUntilItEnds) {
  CacheWorld world({});
  auto lease = world.Open("a");
  auto taken = world.cache().Take("a");
  ASSERT_TRUE(taken.IsReady()) << "it does not wait for leases";
  auto turn = taken.Get().ValueOrDie();
  EXPECT_EQ(turn.table, world.cached("a"));
  taken = {};
  EXPECT_EQ(world.counts().leased, 0u) << "the table has left the cache";
  const auto found = world.Find("a");
  const auto missing = world.cache().Take("a");
  EXPECT_FALSE(found.IsReady());
  EXPECT_FALSE(missing.IsReady()) << "one at a time";
  world.Drop(lease);
  EXPECT_EQ(world.table("a").drains + world.table("a").closes, 0) << "it is the taker's now";
  EXPECT_EQ(world.opens("a"), 1);

  turn.table.reset();
  turn.end.reset();
  world.Settle();
  ASSERT_TRUE(missing.IsReady());
  EXPECT_EQ(missing.Get().ValueOrDie().table, nullptr);
  EXPECT_FALSE(found.IsReady());
}

TEST(TableCache, FindersOpenTheTableAnewWhenATurnEnds) {
  CacheWorld world({});
  auto turn = world.cache().Take("a").Get().ValueOrDie();
  EXPECT_EQ(turn.table, nullptr) << "nothing was open";
  const auto found = world.Find("a");
  EXPECT_EQ(world.opens("a"), 0);
  turn.end.reset();
  world.Settle();
  EXPECT_EQ(world.opens("a"), 1);
  world.FinishOpen("a");
  EXPECT_TRUE(found.IsReady() && found.Get().ok());
}

TEST(TableCache, TakeWaitsForAnOpenADrainAndAClose) {
  CacheWorld world({});
  const auto opening = world.Find("opening");
  world.OpenIdle("draining", /*dirty=*/true);
  world.OpenIdle("closing");
  const auto drained = world.cache().Evict("draining", std::chrono::seconds(30));
  const auto closed = world.cache().Evict("closing", std::chrono::seconds(30));
  world.Settle();
  std::map<std::string, env::Future<TableCache::Turn>> turns;
  for (const std::string name : {"opening", "draining", "closing"}) {
    turns[name] = world.cache().Take(name);
    world.Settle();
    EXPECT_FALSE(turns[name].IsReady()) << name;
  }
  world.FinishOpen("opening");
  EXPECT_TRUE(opening.IsReady() && opening.Get().ok()) << "they came first";
  world.FinishDrain("draining");
  world.FinishClose("closing");
  for (const auto& [name, turn] : turns) ASSERT_TRUE(turn.IsReady()) << name;
  EXPECT_EQ(turns["opening"].Get().ValueOrDie().table, world.cached("opening"));
  EXPECT_EQ(turns["draining"].Get().ValueOrDie().table, world.cached("draining"));
  EXPECT_EQ(turns["closing"].Get().ValueOrDie().table, nullptr);
  EXPECT_EQ(world.table("draining").closes, 0) << "the taker closes it";
  EXPECT_TRUE(drained.IsReady() && closed.IsReady());
}

TEST(TableCache, TakeIfOpenTakesOnlyTheTableThatWasMeant) {
  CacheWorld world({});
  world.OpenIdle("a");
  const auto old = world.cached("a");
  auto turn = world.cache().TakeIfOpen("a", old.get()).Get().ValueOrDie();
  EXPECT_EQ(turn.table, old);
  turn = {};
  world.Settle();
  world.OpenIdle("a");
  turn = world.cache().TakeIfOpen("a", old.get()).Get().ValueOrDie();
  EXPECT_TRUE(turn.table == nullptr && turn.end.use_count() == 0) << "another one by now";
  turn = world.cache().TakeIfOpen("b", old.get()).Get().ValueOrDie();
  EXPECT_TRUE(turn.table == nullptr && turn.end.use_count() == 0);
  EXPECT_FALSE(world.cache().Contains("b"));
  const auto evicted = world.cache().Evict("a", std::chrono::seconds(30));
  world.Settle();
  turn = world.cache().TakeIfOpen("a", world.cached("a").get()).Get().ValueOrDie();
  EXPECT_TRUE(turn.table == nullptr && turn.end.use_count() == 0) << "it is being closed already";
}

TEST(TableCache, ShuttingEndsEveryWaitAndGivesWhatWasOpen) {
  CacheWorld world({.capacity = 4});
  auto held = world.Open("held");
  world.OpenIdle("draining", /*dirty=*/true);
  const auto turn = world.cache().Take("taken");
  const auto opening = world.Find("opening");
  const auto evicted = world.cache().Evict("held", std::chrono::seconds(30));
  const auto drained = world.cache().Evict("draining", std::chrono::seconds(30));
  std::vector<TableFuture> finders = {world.Find("in line"), world.Find("taken"), opening};
  const std::vector<env::Future<TableCache::Turn>> takers = {
      world.cache().Take("opening"), world.cache().Take("taken"), world.cache().Take("draining")};
  world.Settle();

  const auto open = world.cache().Shut();
  world.Settle();
  EXPECT_EQ(open.size(), 2u) << "'held' and 'draining'";
  finders.push_back(world.Find("late"));
  finders.push_back(world.Find("held"));
  world.FinishOpen("opening");
  world.FinishDrain("draining");
  for (const TableFuture& finder : finders) {
    ASSERT_TRUE(finder.IsReady());
    EXPECT_TRUE(Is(finder.Get().status(), ErrorKind::kCancelled)) << finder.Get().status();
  }
  for (const auto& taker : takers) {
    ASSERT_TRUE(taker.IsReady());
    EXPECT_TRUE(Is(taker.Get().status(), ErrorKind::kCancelled));
  }
  for (const auto& eviction : {evicted, drained}) {
    ASSERT_TRUE(eviction.IsReady());
    EXPECT_TRUE(Is(eviction.Get().status(), ErrorKind::kCancelled));
  }
  EXPECT_TRUE(Is(world.cache().Take("late").Get().status(), ErrorKind::kCancelled));
  EXPECT_EQ(world.table("opening").closes, 1) << "nobody else knows it";
  EXPECT_EQ(world.table("draining").closes, 0) << "whoever shut the cache closes it";
  EXPECT_EQ(world.opens("in line") + world.opens("late"), 0);
  world.Drop(held);
}

// Many threads on few places. A table here opens, drains and closes as a task of the pool, with
// pauses in between.
struct RacingCounts {
  std::atomic<int> live_of_all{0};
  std::atomic<int> most_live{0};
  std::vector<std::atomic<int>> live{std::vector<std::atomic<int>>(32)};
  std::atomic<int> two_live{0};
  std::atomic<int> used_when_closed{0};
  std::atomic<int> rows_lost{0};
  std::atomic<int> opened_untold{0};  // again, before the hook had heard that the former one left
  std::vector<std::atomic<int>> opened{std::vector<std::atomic<int>>(32)};
  std::vector<std::atomic<int>> left{std::vector<std::atomic<int>>(32)};
};

void Pause(env::Random& random) {
  for (uint64_t times = random.Below(8); times > 0; --times) std::this_thread::yield();
}

class RacingTable final : public CachedTable {
 public:
  RacingTable(int name, RacingCounts& counts, const env::Env& env, uint32_t failing_drains)
      : name_(name),
        counts_(counts),
        env_(env),
        failing_drains_(failing_drains),
        held_(fmt::format("t{}", name)) {
    if (counts_.live[static_cast<size_t>(name)].fetch_add(1) != 0) ++counts_.two_live;
    const int now = ++counts_.live_of_all;
    int most = counts_.most_live;
    while (now > most && !counts_.most_live.compare_exchange_weak(most, now)) {
    }
  }

  Table& table() override { return held_; }
  bool NeedsDrain() const override { return saved_ < appended_; }
  env::Future<env::Unit> Drain(env::Duration) override {
    return Later([this, covers = appended_.load()]() -> Result<env::Unit> {
      if (env_.random->Below(100) < failing_drains_)
        return MakeError(ErrorKind::kUnavailable, "the bucket is away");
      saved_ = covers;
      return env::Unit{};
    });
  }
  env::Future<env::Unit> CloseForEviction(env::Duration) override {
    closed_ = true;
    if (NeedsDrain()) ++counts_.rows_lost;
    return Later([this]() -> Result<env::Unit> {
      --counts_.live_of_all;
      --counts_.live[static_cast<size_t>(name_)];
      return env::Unit{};
    });
  }
  // What a holder of a lease does.
  void Use(env::Random& random) {
    if (closed_) ++counts_.used_when_closed;
    ++appended_;
    Pause(random);
    if (closed_) ++counts_.used_when_closed;
  }

 private:
  env::Future<env::Unit> Later(std::function<Result<env::Unit>()> work) {
    auto promise = std::make_shared<env::Promise<env::Unit>>();
    auto future = promise->future();
    env_.storage->Post([this, promise, work = std::move(work)] {
      Pause(*env_.random);
      promise->Set(work());
    });
    return future;
  }

  const int name_;
  RacingCounts& counts_;
  const env::Env& env_;
  const uint32_t failing_drains_;
  HeldTable held_;
  std::atomic<int64_t> appended_{0};
  std::atomic<int64_t> saved_{0};
  std::atomic<bool> closed_{false};
};

void Race(uint32_t failing_drains, RacingCounts& counts, TableCacheCounts* end) {
  constexpr int kThreads = 64;
  constexpr int kNames = 32;
  env::PosixEnv posix({.storage_threads = 4, .cpu_threads = 1});
  std::mutex mutex;
  std::map<const Table*, std::shared_ptr<RacingTable>> tables;  // all there ever were
  const auto cache =
      std::make_shared<TableCache>(posix.env(), TableCacheOptions{.capacity = 4, .retry_delay = {}},
                                   [&](const TableCache::Eviction& eviction) {
                                     if (eviction.left)
                                       ++counts.left[std::stoul(eviction.name.substr(1))];
                                   });
  const auto opener = [&](int name) {
    return [&, name] {
      const auto index = static_cast<size_t>(name);
      if (counts.left[index] != counts.opened[index]++) ++counts.opened_untold;
      Pause(*posix.env().random);
      auto table = std::make_shared<RacingTable>(name, counts, posix.env(), failing_drains);
      Pause(*posix.env().random);
      const std::scoped_lock lock(mutex);
      tables[&table->table()] = table;
      return env::Future<TableCache::CachedPtr>::Ready(TableCache::CachedPtr(table));
    };
  };
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      env::SimRandom random(tests::SeedFor("TableCache.Race") + static_cast<uint64_t>(thread));
      for (int i = 0; i < tests::kCacheFinds; ++i) {
        const int name = static_cast<int>(random.Below(kNames));
        const auto found =
            cache->Find(fmt::format("t{}", name), opener(name)).Wait(std::chrono::seconds(100));
        if (!found.ok()) {
          ++failed;
          continue;
        }
        std::shared_ptr<RacingTable> table;
        {
          const std::scoped_lock lock(mutex);
          table = tables.at(found->get());
        }
        table->Use(random);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  *end = cache->counts();
  cache->Shut();
  posix.Stop();
}

TEST(TableCacheRace, OneLiveTablePerNameAndNoMoreThanTheCapacity) {
  RacingCounts counts;
  TableCacheCounts end;
  Race(/*failing_drains=*/0, counts, &end);
  EXPECT_EQ(counts.two_live, 0) << "two live tables of one name";
  EXPECT_LE(counts.most_live, 4);
  EXPECT_EQ(counts.used_when_closed, 0);
  EXPECT_EQ(counts.rows_lost, 0) << "closed with rows that only the log has";
  EXPECT_EQ(counts.opened_untold, 0);
  EXPECT_EQ(end.waiting + end.opening, 0u);
  EXPECT_EQ(end.evictions_undrained, 0u);
  EXPECT_GT(end.evictions, 32u);
}

TEST(TableCacheRace, DrainsThatFailLoseNothingAndBlockNobody) {
  RacingCounts counts;
  TableCacheCounts end;
  Race(/*failing_drains=*/20, counts, &end);
  EXPECT_EQ(counts.two_live, 0);
  EXPECT_EQ(counts.used_when_closed, 0);
  EXPECT_EQ(counts.rows_lost, 0);
  EXPECT_EQ(counts.opened_untold, 0);
  EXPECT_EQ(end.waiting + end.opening, 0u);
  EXPECT_GT(end.evictions_undrained, 0u);
}

}  // namespace
}  // namespace sarissa::engine
