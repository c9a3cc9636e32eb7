#include "env/memory_budget.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "env/sim/sim_scheduler.h"

namespace sarissa::env {
namespace {

using enum MemoryUse;

int64_t SumOfUses(const MemoryBudget& budget) {
  int64_t sum = 0;
  for (const MemoryUse use : kMemoryUses) sum += budget.used(use);
  return sum;
}

TEST(MemoryBudget, RefusesAboveTheLimitAndChargesNothing) {
  MemoryBudget budget(100);
  const Result<Reservation> first = budget.Reserve(60, kBodies, "a request");
  ASSERT_TRUE(first.ok());
  const Result<Reservation> second = budget.Reserve(41, kBodies, "a request");
  EXPECT_TRUE(Is(second.status(), ErrorKind::kOverloaded));
  EXPECT_EQ(budget.used(), 60);
  EXPECT_TRUE(budget.Reserve(40, kBodies, "a request").ok());
}

TEST(MemoryBudget, GivesBackWhenTheReservationDies) {
  MemoryBudget budget(100);
  {
    const Reservation held = budget.Reserve(100, kBodies, "a request").MoveValueUnsafe();
    EXPECT_EQ(budget.used(), 100);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudget, OneHugeRequestIsAdmittedWhenNothingElseIsCharged) {
  MemoryBudget budget(100);
  const Result<Reservation> huge = budget.Reserve(INT64_MAX, kBodies, "an upload");
  ASSERT_TRUE(huge.ok());
  EXPECT_TRUE(Is(budget.Reserve(1, kBodies, "a request").status(), ErrorKind::kOverloaded));
}

TEST(MemoryBudget, ZeroMeansNoLimit) {
  MemoryBudget budget(0);
  const Result<Reservation> first = budget.Reserve(int64_t{1} << 40, kBodies, "a request");
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(budget.Reserve(int64_t{1} << 40, kBodies, "a request").ok());
}

TEST(MemoryBudget, ForceNeverFails) {
  MemoryBudget budget(10);
  const Reservation replayed = budget.Force(50, kMemtables);
  EXPECT_EQ(budget.used(), 50);
  EXPECT_FALSE(budget.Reserve(1, kBodies, "a request").ok());
}

TEST(MemoryBudget, ReservationsMergeMoveAndShrink) {
  MemoryBudget budget(100);
  Reservation all;
  all.Merge(budget.Reserve(30, kBodies, "a request").MoveValueUnsafe());
  all.Merge(budget.Reserve(20, kBodies, "a request").MoveValueUnsafe());
  EXPECT_EQ(all.bytes(), 50);
  EXPECT_EQ(budget.used(), 50);
  all.ShrinkTo(60);
  EXPECT_EQ(all.bytes(), 50);
  all.ShrinkTo(10);
  EXPECT_EQ(budget.used(), 10);
  Reservation other = budget.Reserve(5, kBodies, "a request").MoveValueUnsafe();
  other = std::move(all);
  EXPECT_EQ(budget.used(), 10);
  other.Release();
  other.Release();
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudget, EveryByteCountsForOneUse) {
  MemoryBudget budget(1000);
  const Reservation body = budget.Reserve(100, kBodies, "a request").MoveValueUnsafe();
  const Reservation table = budget.Force(10, kCaches);
  const Reservation replayed = budget.Force(1, kMemtables);
  EXPECT_EQ(budget.used(kBodies), 100);
  EXPECT_EQ(budget.used(kCaches), 10);
  EXPECT_EQ(budget.used(kMemtables), 1);
  EXPECT_EQ(budget.used(kScans), 0);
  EXPECT_EQ(budget.used(), 111);
}

TEST(MemoryBudget, AChargePassesFromOneUseToAnother) {
  MemoryBudget budget(1000);
  Reservation charge = budget.Reserve(100, kBodies, "a request").MoveValueUnsafe();
  charge.Relabel(kMemtables);
  EXPECT_EQ(budget.used(kBodies), 0);
  EXPECT_EQ(budget.used(kMemtables), 100);
  EXPECT_EQ(budget.used(), 100) << "it must not count twice, nor not at all";
  charge.Relabel(kCaches);
  EXPECT_EQ(budget.used(kCaches), 100);
  EXPECT_EQ(budget.used(), 100);
  charge.Relabel(kScans);
  EXPECT_EQ(budget.used(kScans), 100);
  EXPECT_EQ(budget.used(), 100);
  const Reservation moved = std::move(charge);
  charge.Release();
  charge.Relabel(kBodies);
  EXPECT_EQ(budget.used(kScans), 100);
  EXPECT_EQ(SumOfUses(budget), budget.used());
}

TEST(MemoryBudget, MergedReservationsHaveTheUseOfTheFirst) {
  MemoryBudget budget(1000);
  Reservation memtable = budget.Force(10, kMemtables);
  memtable.Merge(budget.Reserve(100, kBodies, "a request").MoveValueUnsafe());
  EXPECT_EQ(budget.used(kMemtables), 110);
  EXPECT_EQ(budget.used(kBodies), 0);
  Reservation empty;
  empty.Merge(std::move(memtable));
  EXPECT_EQ(budget.used(kMemtables), 110) << "what holds nothing has no use of its own";
  Reservation part = empty.Split(30);
  EXPECT_EQ(part.bytes(), 30);
  EXPECT_EQ(empty.bytes(), 80);
  EXPECT_EQ(budget.used(kMemtables), 110);
  part.Release();
  EXPECT_EQ(budget.used(kMemtables), 80);
  EXPECT_EQ(empty.Split(1000).bytes(), 80);
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudget, CachesTakeRoomButDoNotKeepAHugeRequestOutForEver) {
  MemoryBudget budget(100);
  const Reservation tables = budget.Force(60, kCaches);
  {
    const Reservation held = budget.Reserve(30, kBodies, "a request").MoveValueUnsafe();
    EXPECT_FALSE(budget.Reserve(20, kBodies, "a request").ok()) << "caches count";
    EXPECT_FALSE(budget.Reserve(200, kBodies, "an upload").ok());
  }
  const Result<Reservation> huge = budget.Reserve(200, kBodies, "an upload");
  ASSERT_TRUE(huge.ok());
  EXPECT_EQ(budget.used(), 260);
  EXPECT_FALSE(budget.Reserve(1, kBodies, "a request").ok());
}

TEST(MemoryBudget, EveryUseHasAName) {
  std::set<std::string_view> names;
  for (const MemoryUse use : kMemoryUses) names.insert(MemoryUseName(use));
  EXPECT_EQ(names.size(), kMemoryUses.size());
  EXPECT_TRUE(names.contains("memtables"));
}

class WaitingForMemory : public ::testing::Test {
 protected:
  WaitingForMemory() : scheduler_(1), process_(scheduler_) {}

  SimScheduler scheduler_;
  SimProcess process_;
  SimExecutor& executor_ = process_.MakeExecutor("waits", 1);
  MemoryBudget budget_{100};
};

TEST_F(WaitingForMemory, ARequestThatFitsDoesNotWait) {
  const auto held =
      budget_.ReserveWithin(100, kBodies, "a request", executor_, std::chrono::seconds(5));
  ASSERT_TRUE(held.IsReady());
  EXPECT_EQ((*held.Get())->bytes(), 100);
}

TEST_F(WaitingForMemory, EndsWhenRoomIsGivenBackInTheOrderOfTheCalls) {
  Reservation held = budget_.Reserve(90, kBodies, "a request").MoveValueUnsafe();
  const auto large =
      budget_.ReserveWithin(80, kBodies, "large", executor_, std::chrono::seconds(5));
  const auto small = budget_.ReserveWithin(5, kBodies, "small", executor_, std::chrono::seconds(5));
  EXPECT_EQ(budget_.waiting(), 2);
  EXPECT_FALSE(small.IsReady()) << "a small request must not pass a large one for ever";
  held.Release();
  ASSERT_TRUE(large.IsReady() && small.IsReady());
  EXPECT_EQ(budget_.used(), 85);
  EXPECT_EQ(budget_.waiting(), 0);
}

TEST_F(WaitingForMemory, EndsOverloadedAfterThePatienceAndChargesNothing) {
  const Reservation held = budget_.Reserve(90, kBodies, "a request").MoveValueUnsafe();
  const auto large =
      budget_.ReserveWithin(80, kBodies, "large", executor_, std::chrono::seconds(5));
  const auto small = budget_.ReserveWithin(5, kBodies, "small", executor_, std::chrono::seconds(9));
  scheduler_.RunFor(std::chrono::seconds(6));
  ASSERT_TRUE(large.IsReady());
  EXPECT_TRUE(Is(large.Get().status(), ErrorKind::kOverloaded)) << large.Get().status();
  ASSERT_TRUE(small.IsReady() && small.Get().ok()) << "who waited behind it fits now";
  EXPECT_EQ(budget_.used(), 95);
}

TEST_F(WaitingForMemory, AWaitThatAStoppedExecutorCannotTimeEndsAtOnce) {
  const Reservation held = budget_.Reserve(90, kBodies, "a request").MoveValueUnsafe();
  process_.Kill();
  const auto refused =
      budget_.ReserveWithin(80, kBodies, "large", executor_, std::chrono::seconds(5));
  ASSERT_TRUE(refused.IsReady());
  EXPECT_FALSE(refused.Get().ok());
  EXPECT_EQ(budget_.waiting(), 0);
}

TEST_F(WaitingForMemory, IsChargedToTheUseThatWasAskedFor) {
  Reservation held = budget_.Reserve(90, kBodies, "a request").MoveValueUnsafe();
  const auto scan = budget_.ReserveWithin(80, kScans, "a list", executor_, std::chrono::seconds(5));
  held.Release();
  ASSERT_TRUE(scan.IsReady() && scan.Get().ok());
  EXPECT_EQ(budget_.used(kScans), 80);
  EXPECT_EQ(budget_.used(kBodies), 0);
}

TEST_F(WaitingForMemory, EndsForAHugeRequestWhenOnlyCachesAreLeft) {
  Reservation held = budget_.Reserve(90, kBodies, "a request").MoveValueUnsafe();
  const auto huge =
      budget_.ReserveWithin(1000, kBodies, "an upload", executor_, std::chrono::seconds(5));
  EXPECT_FALSE(huge.IsReady());
  held.Relabel(kCaches);
  ASSERT_TRUE(huge.IsReady() && huge.Get().ok());
  EXPECT_EQ(budget_.used(), 1090);
}

TEST(MemoryBudget, TheSumHoldsWhileThreadsChargeSplitAndRelabel) {
  MemoryBudget budget(0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&budget, i] {
      for (size_t j = 0; j < 5000; ++j) {
        const auto use = [j](size_t offset) {
          return kMemoryUses[(j + offset) % kMemoryUses.size()];
        };
        Reservation held = budget.Force(100, use(i));
        held.Relabel(use(i + 1));
        Reservation part = held.Split(40);
        part.Relabel(use(i + 3));
        held.Merge(std::move(part));
        held.ShrinkTo(70);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
  for (const MemoryUse use : kMemoryUses) EXPECT_EQ(budget.used(use), 0) << MemoryUseName(use);
}

TEST(MemoryBudget, ThreadsNeverPassTheLimitTogether) {
  MemoryBudget budget(10);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) {
        const Result<Reservation> held = budget.Reserve(3, kBodies, "a thread");
        EXPECT_LE(budget.used(), 10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace sarissa::env
