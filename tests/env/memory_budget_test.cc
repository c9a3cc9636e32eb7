#include "env/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

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
