#include "env/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "env/sim/sim_scheduler.h"

namespace sarissa::env {
namespace {

TEST(MemoryBudget, RefusesAboveTheLimitAndChargesNothing) {
  MemoryBudget budget(100);
  const Result<Reservation> first = budget.Reserve(60, "a request");
  ASSERT_TRUE(first.ok());
  const Result<Reservation> second = budget.Reserve(41, "a request");
  EXPECT_TRUE(Is(second.status(), ErrorKind::kOverloaded));
  EXPECT_EQ(budget.used(), 60);
  EXPECT_TRUE(budget.Reserve(40, "a request").ok());
}

TEST(MemoryBudget, GivesBackWhenTheReservationDies) {
  MemoryBudget budget(100);
  {
    const Reservation held = budget.Reserve(100, "a request").MoveValueUnsafe();
    EXPECT_EQ(budget.used(), 100);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(MemoryBudget, OneHugeRequestIsAdmittedWhenNothingElseIsCharged) {
  MemoryBudget budget(100);
  const Result<Reservation> huge = budget.Reserve(INT64_MAX, "an upload");
  ASSERT_TRUE(huge.ok());
  EXPECT_TRUE(Is(budget.Reserve(1, "a request").status(), ErrorKind::kOverloaded));
}

TEST(MemoryBudget, ZeroMeansNoLimit) {
  MemoryBudget budget(0);
  const Result<Reservation> first = budget.Reserve(int64_t{1} << 40, "a request");
  EXPECT_TRUE(first.ok());
  EXPECT_TRUE(budget.Reserve(int64_t{1} << 40, "a request").ok());
}

TEST(MemoryBudget, ForceNeverFails) {
  MemoryBudget budget(10);
  const Reservation replayed = budget.Force(50);
  EXPECT_EQ(budget.used(), 50);
  EXPECT_FALSE(budget.Reserve(1, "a request").ok());
}

TEST(MemoryBudget, ReservationsMergeMoveAndShrink) {
  MemoryBudget budget(100);
  Reservation all;
  all.Merge(budget.Reserve(30, "a request").MoveValueUnsafe());
  all.Merge(budget.Reserve(20, "a request").MoveValueUnsafe());
  EXPECT_EQ(all.bytes(), 50);
  EXPECT_EQ(budget.used(), 50);
  all.ShrinkTo(60);
  EXPECT_EQ(all.bytes(), 50);
  all.ShrinkTo(10);
  EXPECT_EQ(budget.used(), 10);
  Reservation other = budget.Reserve(5, "a request").MoveValueUnsafe();
  other = std::move(all);
  EXPECT_EQ(budget.used(), 10);
  other.Release();
  other.Release();
  EXPECT_EQ(budget.used(), 0);
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
  const auto held = budget_.ReserveWithin(100, "a request", executor_, std::chrono::seconds(5));
  ASSERT_TRUE(held.IsReady());
  EXPECT_EQ((*held.Get())->bytes(), 100);
}

TEST_F(WaitingForMemory, EndsWhenRoomIsGivenBackInTheOrderOfTheCalls) {
  Reservation held = budget_.Reserve(90, "a request").MoveValueUnsafe();
  const auto large = budget_.ReserveWithin(80, "large", executor_, std::chrono::seconds(5));
  const auto small = budget_.ReserveWithin(5, "small", executor_, std::chrono::seconds(5));
  EXPECT_EQ(budget_.waiting(), 2);
  EXPECT_FALSE(small.IsReady()) << "a small request must not pass a large one for ever";
  held.Release();
  ASSERT_TRUE(large.IsReady() && small.IsReady());
  EXPECT_EQ(budget_.used(), 85);
  EXPECT_EQ(budget_.waiting(), 0);
}

TEST_F(WaitingForMemory, EndsOverloadedAfterThePatienceAndChargesNothing) {
  const Reservation held = budget_.Reserve(90, "a request").MoveValueUnsafe();
  const auto large = budget_.ReserveWithin(80, "large", executor_, std::chrono::seconds(5));
  const auto small = budget_.ReserveWithin(5, "small", executor_, std::chrono::seconds(9));
  scheduler_.RunFor(std::chrono::seconds(6));
  ASSERT_TRUE(large.IsReady());
  EXPECT_TRUE(Is(large.Get().status(), ErrorKind::kOverloaded)) << large.Get().status();
  ASSERT_TRUE(small.IsReady() && small.Get().ok()) << "who waited behind it fits now";
  EXPECT_EQ(budget_.used(), 95);
}

TEST_F(WaitingForMemory, AWaitThatAStoppedExecutorCannotTimeEndsAtOnce) {
  const Reservation held = budget_.Reserve(90, "a request").MoveValueUnsafe();
  process_.Kill();
  const auto refused = budget_.ReserveWithin(80, "large", executor_, std::chrono::seconds(5));
  ASSERT_TRUE(refused.IsReady());
  EXPECT_FALSE(refused.Get().ok());
  EXPECT_EQ(budget_.waiting(), 0);
}

TEST(MemoryBudget, ThreadsNeverPassTheLimitTogether) {
  MemoryBudget budget(10);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) {
        const Result<Reservation> held = budget.Reserve(3, "a thread");
        EXPECT_LE(budget.used(), 10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace sarissa::env
