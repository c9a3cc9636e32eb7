#include "env/sim/sim_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "env/future.h"
#include "env/sim/sim_env.h"

namespace sarissa::env {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Trace {
  std::string order;
  uint64_t hash = 0;
  uint64_t disk = 0;
};

// Three tasks that write files and sleep: enough for many interleavings.
Trace RunTasks(uint64_t seed) {
  SimDisk disk;
  SimScheduler scheduler(seed);
  SimEnv world(scheduler, disk, {.seed = seed, .max_latency = milliseconds(3)});
  Trace trace;
  for (const char name : {'a', 'b', 'c'}) {
    world.env().storage->Post([&world, &scheduler, &trace, name] {
      for (int step = 0; step < 4; ++step) {
        trace.order.push_back(name);
        const auto file = world.file_system().CreateUnnamed("/").ValueOrDie();
        const uint8_t byte = static_cast<uint8_t>(world.env().random->Below(256));
        EXPECT_TRUE(file->Append({&byte, 1}).ok());
        EXPECT_TRUE(file->LinkAs(std::string("/") + name + std::to_string(step)).ok());
        if (step == 2) scheduler.SleepFor(milliseconds(5));
      }
    });
  }
  EXPECT_TRUE(scheduler.RunUntilIdle());
  trace.hash = scheduler.trace_hash();
  trace.disk = disk.StateHash();
  return trace;
}

TEST(SimScheduler, SameSeedGivesTheSameRun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Trace first = RunTasks(seed);
    const Trace second = RunTasks(seed);
    EXPECT_EQ(first.order, second.order);
    EXPECT_EQ(first.hash, second.hash);
    EXPECT_EQ(first.disk, second.disk);
  }
}

TEST(SimScheduler, SeedsGiveDifferentInterleavings) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 50; ++seed) orders.insert(RunTasks(seed).order);
  EXPECT_GT(orders.size(), 40u);
}

TEST(SimScheduler, TimeMovesOnlyWhenNothingIsReady) {
  SimScheduler scheduler(1);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 4);
  std::vector<int64_t> times;
  const auto note = [&] { times.push_back(scheduler.clock().Now().time_since_epoch().count()); };
  executor.PostAfter(seconds(3), note);
  executor.Post([&] {
    for (int i = 0; i < 5; ++i) scheduler.Yield();
    note();
    scheduler.SleepFor(seconds(1));
    note();
  });
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_EQ(times, (std::vector<int64_t>{0, 1'000'000'000, 3'000'000'000}));
}

TEST(SimScheduler, RunForStopsInTime) {
  SimScheduler scheduler(1);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 1);
  bool fired = false;
  executor.PostAfter(hours(2), [&] { fired = true; });
  scheduler.RunFor(hours(1));
  EXPECT_FALSE(fired);
  EXPECT_EQ(scheduler.clock().Now().time_since_epoch(), hours(1));
  scheduler.RunFor(hours(1));
  EXPECT_TRUE(fired);
}

TEST(SimScheduler, RunUntilReportsWhetherTheConditionCame) {
  SimScheduler scheduler(1);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 1);
  int count = 0;
  std::function<void()> again = [&] {
    ++count;
    executor.Post(again);
  };
  executor.Post(again);
  EXPECT_TRUE(scheduler.RunUntil([&] { return count == 10; }));
  EXPECT_FALSE(scheduler.RunUntil([] { return false; }, 100));
  EXPECT_FALSE(scheduler.RunUntilIdle(100));
  process.Kill();
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_FALSE(scheduler.RunUntil([] { return false; }));
}

TEST(SimScheduler, OneWorkerRunsTasksInOrderAndOneAtATime) {
  SimScheduler scheduler(7);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("serial", 1);
  std::vector<int> order;
  for (int i = 0; i < 10; ++i) {
    executor.Post([&, i] {
      order.push_back(i);
      scheduler.Yield();
      order.push_back(i);
    });
  }
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order.size(), 20u);
}

TEST(SimScheduler, CancelledTimerNeverRuns) {
  SimScheduler scheduler(1);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 1);
  const TimerId timer = executor.PostAfter(seconds(1), [] { FAIL(); });
  EXPECT_TRUE(executor.CancelTimer(timer));
  EXPECT_FALSE(executor.CancelTimer(timer));
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_EQ(scheduler.clock().Now().time_since_epoch().count(), 0);
}

TEST(SimScheduler, ExceptionsOfInterleavedTasksDoNotMix) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SimScheduler scheduler(seed);
    SimProcess process(scheduler);
    SimExecutor& executor = process.MakeExecutor("cpu", 3);
    int right = 0;
    for (int task = 0; task < 3; ++task) {
      executor.Post([&, task] {
        try {
          throw std::runtime_error(std::to_string(task));
        } catch (const std::runtime_error&) {
          scheduler.Yield();
          try {
            throw;
          } catch (const std::runtime_error& again) {
            if (again.what() == std::to_string(task)) ++right;
          }
        }
      });
    }
    EXPECT_TRUE(scheduler.RunUntilIdle());
    EXPECT_EQ(right, 3);
  }
}

TEST(SimProcess, KillDropsTasksAndTimersAndUnwindsFibers) {
  SimScheduler scheduler(3);
  SimProcess process(scheduler);
  SimExecutor& executor = process.MakeExecutor("cpu", 2);
  auto alive = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = alive;
  int started = 0;
  for (int i = 0; i < 2; ++i) {
    executor.Post([&, alive] {
      const std::shared_ptr<int> on_stack = alive;
      ++started;
      scheduler.SleepFor(hours(1));
      ADD_FAILURE() << "a dead task went on";
    });
  }
  executor.Post([alive] { ADD_FAILURE() << "a dead process started a task"; });
  executor.PostAfter(seconds(5), [alive] { ADD_FAILURE() << "a dead process' timer fired"; });
  Promise<int> promise;
  const Future<int> future = promise.future();
  executor.PostAfter(seconds(9),
                     [held = std::make_shared<Promise<int>>(std::move(promise))] { held->Set(1); });
  alive.reset();
  EXPECT_TRUE(scheduler.RunUntil([&] { return started == 2; }));
  process.Kill();
  EXPECT_TRUE(watch.expired());
  EXPECT_TRUE(Is(future.Get().status(), ErrorKind::kCancelled));
  EXPECT_FALSE(executor.Post([] {}));
  EXPECT_EQ(executor.PostAfter(seconds(1), [] {}), 0u);
  EXPECT_TRUE(scheduler.RunUntilIdle());
}

TEST(SimProcess, TaskThatKillsItsOwnProcessEndsAtItsNextCall) {
  SimDisk disk;
  SimScheduler scheduler(3);
  SimEnv world(scheduler, disk, {.yield_percent = 0});
  bool went_on = false;
  bool destroyed = false;
  struct Flag {
    bool& set;
    ~Flag() { set = true; }
  };
  world.env().storage->Post([&] {
    const Flag flag{destroyed};
    world.Kill();
    (void)world.file_system().CreateDirectory("/never");
    went_on = true;
  });
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_FALSE(went_on);
  EXPECT_TRUE(destroyed);
  EXPECT_EQ(disk.mutations(), 0u);
}

TEST(SimProcess, OtherProcessesGoOn) {
  SimDisk disk;
  SimScheduler scheduler(5);
  SimEnv survivor(scheduler, disk, {.seed = 1});
  auto victim = std::make_unique<SimEnv>(scheduler, disk, SimEnv::Options{.seed = 2});
  int survivor_steps = 0;
  victim->env().storage->Post([&] {
    for (;;) (void)victim->file_system().Stat("/");
  });
  survivor.env().storage->Post([&] {
    for (int i = 0; i < 20; ++i) {
      ++survivor_steps;
      EXPECT_TRUE(survivor.file_system().Stat("/").ok());
    }
    // Also from inside another process' task.
    victim.reset();
    EXPECT_TRUE(survivor.file_system().CreateDirectory("/after").ok());
  });
  EXPECT_TRUE(scheduler.RunUntilIdle());
  EXPECT_EQ(survivor_steps, 20);
  EXPECT_TRUE(survivor.file_system().Stat("/after").ok());
}

}  // namespace
}  // namespace sarissa::env
