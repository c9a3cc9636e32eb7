#include "env/posix/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "env/posix/posix_env.h"
#include "env/posix/shared_sync.h"

namespace sarissa::env {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(ThreadPool, RunsEveryTask) {
  ThreadPool pool({.name = "tasks", .threads = 3});
  std::atomic<int> ran = 0;
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int j = 0; j < 500; ++j) EXPECT_TRUE(pool.Post([&] { ++ran; }));
    });
  }
  for (std::thread& poster : posters) poster.join();
  pool.Stop();
  EXPECT_EQ(ran, 2000);
}

TEST(ThreadPool, OneWorkerKeepsTheOrder) {
  ThreadPool pool({.name = "order", .threads = 1});
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) pool.Post([&order, i] { order.push_back(i); });
  pool.Stop();
  ASSERT_EQ(order.size(), 100u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(ThreadPool, UsesAllItsWorkers) {
  ThreadPool pool({.name = "width", .threads = 4});
  std::latch all_running(4);
  for (int i = 0; i < 4; ++i) pool.Post([&] { all_running.arrive_and_wait(); });
  pool.Stop();
}

TEST(ThreadPool, StopRunsWhatIsQueuedAndRefusesTheRest) {
  ThreadPool pool({.name = "stop", .threads = 1});
  std::latch started(1);
  std::latch go_on(1);
  std::atomic<int> ran = 0;
  pool.Post([&] {
    started.count_down();
    go_on.wait();
    ++ran;
  });
  pool.Post([&] { ++ran; });
  started.wait();
  std::thread stopper([&] { pool.Stop(); });
  // The pool refuses tasks from the moment that Stop has begun.
  while (pool.Post([&] { ++ran; })) std::this_thread::yield();
  const int refused_at = ran;
  EXPECT_EQ(refused_at, 0);
  go_on.count_down();
  stopper.join();
  EXPECT_GE(ran, 2);
  EXPECT_EQ(pool.PostAfter(milliseconds(0), [] {}), 0u);
}

TEST(ThreadPool, TimerFires) {
  ThreadPool pool({.name = "timer", .threads = 1});
  std::latch fired(2);
  EXPECT_NE(pool.PostAfter(milliseconds(1), [&] { fired.count_down(); }), 0u);
  EXPECT_NE(pool.PostAfter(milliseconds(-5), [&] { fired.count_down(); }), 0u);
  fired.wait();
}

TEST(ThreadPool, EarlierTimerOvertakesALaterOne) {
  ThreadPool pool({.name = "timers", .threads = 1});
  std::latch fired(1);
  const TimerId late = pool.PostAfter(hours(24 * 365 * 200), [] { FAIL(); });
  pool.PostAfter(milliseconds(1), [&] { fired.count_down(); });
  fired.wait();
  EXPECT_TRUE(pool.CancelTimer(late));
  EXPECT_FALSE(pool.CancelTimer(late));
}

TEST(ThreadPool, PendingTimersDieWithThePoolWithoutRunning) {
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = alive;
  ThreadPool pool({.name = "pending", .threads = 1});
  pool.PostAfter(hours(1), [alive = std::move(alive)] { FAIL(); });
  EXPECT_FALSE(watch.expired());
  pool.Stop();
  EXPECT_TRUE(watch.expired());
}

TEST(ThreadPool, CancelledTimerReleasesItsTask) {
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = alive;
  ThreadPool pool({.name = "cancel", .threads = 1});
  const TimerId timer = pool.PostAfter(hours(1), [alive = std::move(alive)] { FAIL(); });
  EXPECT_TRUE(pool.CancelTimer(timer));
  EXPECT_TRUE(watch.expired());
}

TEST(ThreadPool, FiredTimerCannotBeCancelled) {
  ThreadPool pool({.name = "fired", .threads = 1});
  std::latch fired(1);
  const TimerId timer = pool.PostAfter(milliseconds(0), [&] { fired.count_down(); });
  fired.wait();
  EXPECT_FALSE(pool.CancelTimer(timer));
}

TEST(SharedSync, WaitersShareTheNextRun) {
  SharedSync syncs;
  std::atomic<int> runs = 0;
  std::latch first_running(1);
  std::latch let_first_end(1);
  std::thread first([&] {
    EXPECT_TRUE(syncs
                    .Run("d",
                         [&] {
                           ++runs;
                           first_running.count_down();
                           let_first_end.wait();
                           return Status::OK();
                         })
                    .ok());
  });
  first_running.wait();
  constexpr int kWaiters = 8;
  std::atomic<int> asked = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] {
      ++asked;
      EXPECT_TRUE(Is(syncs.Run("d",
                               [&] {
                                 ++runs;
                                 return MakeError(ErrorKind::kIo, "the second sync fails");
                               }),
                     ErrorKind::kIo));
    });
  }
  while (asked < kWaiters) std::this_thread::yield();
  let_first_end.count_down();
  first.join();
  for (std::thread& waiter : waiters) waiter.join();
  // Never answered by the first run; a waiter that came late may have needed one more.
  EXPECT_GE(runs, 2);
  EXPECT_LE(runs, 1 + kWaiters);
}

TEST(SharedSync, CallerIsCoveredByARunThatStartedAfterItsCall) {
  SharedSync syncs;
  std::atomic<uint64_t> written = 0;
  std::vector<std::thread> threads;
  std::atomic<uint64_t> synced = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 300; ++j) {
        const uint64_t mine = ++written;
        const Status status = syncs.Run("d", [&] {
          const uint64_t covers = written;
          std::this_thread::yield();
          uint64_t before = synced;
          while (before < covers && !synced.compare_exchange_weak(before, covers)) {
          }
          return Status::OK();
        });
        EXPECT_TRUE(status.ok());
        EXPECT_GE(synced, mine);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PosixEnv, GivesAWholeEnvironment) {
  PosixEnv machine(
      {.storage_threads = 2, .cpu_threads = 1, .memory_limit = 1000, .sync_mode = SyncMode::kNone});
  const Env& env = machine.env();
  std::latch ran(2);
  env.storage->Post([&] { ran.count_down(); });
  env.cpu->Post([&] { ran.count_down(); });
  ran.wait();
  EXPECT_NE(env.random->Next(), env.random->Next());
  const MonotonicTime before = env.clock->Now();
  EXPECT_LE(before, env.clock->Now());
  EXPECT_EQ(env.budget->limit(), 1000);
  env.metrics->GetCounter("c", "help").Add();
  machine.Stop();
  EXPECT_FALSE(env.storage->Post([] {}));
}

}  // namespace
}  // namespace sarissa::env
