#include "env/future.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "env/posix/thread_pool.h"
#include "env/sim/sim_scheduler.h"

namespace sarissa::env {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

TEST(Future, DeliversTheResult) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  EXPECT_FALSE(future.IsReady());
  EXPECT_TRUE(promise.pending());
  promise.Set(7);
  ASSERT_TRUE(future.IsReady());
  EXPECT_EQ(*future.Get(), 7);
  EXPECT_EQ(*future.Wait(seconds(1)), 7);
}

TEST(Future, DeliversAnError) {
  Promise<int> promise;
  promise.Set(MakeError(ErrorKind::kFenced, "a higher epoch"));
  EXPECT_TRUE(Is(promise.future().Get().status(), ErrorKind::kFenced));
}

TEST(FutureDeathTest, CompletingTwiceIsABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Promise<int> promise;
  promise.Set(1);
  EXPECT_DEATH(promise.Set(2), "completed twice");
}

TEST(Future, AbandonedPromiseCompletesAsCancelled) {
  Future<int> future;
  {
    const Promise<int> promise;
    future = promise.future();
  }
  ASSERT_TRUE(future.IsReady());
  EXPECT_TRUE(Is(future.Get().status(), ErrorKind::kCancelled));
}

TEST(Future, MoveAssignmentAbandonsTheOldPromise) {
  Promise<int> promise;
  const Future<int> old = promise.future();
  promise = Promise<int>();
  EXPECT_TRUE(old.IsReady());
  EXPECT_TRUE(promise.pending());
}

TEST(Future, ResultAfterCancelIsDropped) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  future.Cancel("the client left");
  EXPECT_FALSE(promise.pending());
  promise.Set(3);
  EXPECT_TRUE(Is(future.Get().status(), ErrorKind::kCancelled));
}

TEST(Future, CancelAfterTheResultChangesNothing) {
  Promise<int> promise;
  promise.Set(3);
  promise.future().Cancel();
  EXPECT_EQ(*promise.future().Get(), 3);
}

TEST(Future, ContinuationRunsOnTheExecutorAndNotInsideSet) {
  SimScheduler scheduler(1);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 1);
  Promise<int> promise;
  std::vector<int> seen;
  promise.future().Then(executor, [&](const Result<int>& result) { seen.push_back(*result); });
  promise.Set(4);
  EXPECT_TRUE(seen.empty());
  promise.future().Then(executor, [&](const Result<int>& result) { seen.push_back(*result + 1); });
  EXPECT_TRUE(seen.empty());
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_EQ(seen, (std::vector<int>{4, 5}));
}

TEST(Future, DeadlinePassesFirst) {
  SimScheduler scheduler(1);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 1);
  Promise<int> promise;
  const Future<int> bounded = promise.future().WithDeadline(executor, seconds(5), "the flush");
  scheduler.RunFor(seconds(4));
  EXPECT_FALSE(bounded.IsReady());
  scheduler.RunFor(seconds(2));
  ASSERT_TRUE(bounded.IsReady());
  EXPECT_TRUE(Is(bounded.Get().status(), ErrorKind::kDeadline));
  promise.Set(1);
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_EQ(*promise.future().Get(), 1);
}

TEST(Future, ResultBeforeTheDeadlineCancelsTheTimer) {
  SimScheduler scheduler(1);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 1);
  Promise<int> promise;
  const Future<int> bounded = promise.future().WithDeadline(executor, hours(1), "the flush");
  promise.Set(9);
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_EQ(*bounded.Get(), 9);
  EXPECT_LT(scheduler.clock().Now().time_since_epoch(), hours(1));
}

TEST(Future, WaitersOfAStoppedPoolAreReleased) {
  ThreadPool pool({.name = "stopped", .threads = 1});
  pool.Stop();
  auto promise = std::make_shared<Promise<int>>();
  const Future<int> future = promise->future();
  EXPECT_FALSE(pool.Post([promise = std::move(promise)] { promise->Set(1); }));
  EXPECT_TRUE(Is(future.Get().status(), ErrorKind::kCancelled));
}

TEST(Future, ManyThreadsSeeOneResult) {
  ThreadPool pool({.name = "futures", .threads = 4});
  for (int round = 0; round < 200; ++round) {
    auto promise = std::make_shared<Promise<int>>();
    const Future<int> future = promise->future();
    std::atomic<int> sum = 0;
    std::vector<Future<Unit>> done;
    for (int i = 0; i < 4; ++i) {
      auto reported = std::make_shared<Promise<Unit>>();
      done.push_back(reported->future());
      pool.Post([&pool, &sum, future, reported] {
        future.Then(pool, [&sum, reported](const Result<int>& result) {
          sum += result.ok() ? *result : 1;
          reported->Set(Unit());
        });
      });
    }
    // Half of the rounds race the result with a cancel.
    std::thread canceller([&] {
      if (round % 2 == 0) future.Cancel();
    });
    pool.Post([promise] { promise->Set(1); });
    promise.reset();
    for (const Future<Unit>& each : done) ASSERT_TRUE(each.Wait(seconds(60)).ok());
    canceller.join();
    EXPECT_EQ(sum, 4);
  }
}

}  // namespace
}  // namespace sarissa::env
