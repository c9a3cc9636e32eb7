// A deterministic world of tasks: one thread, one seed, virtual time.
//
// Every task runs as a fiber. A fiber gives way only in Yield and SleepFor (simulated I/O calls
// them); who runs next is drawn from the seed, so a seed is an interleaving and replays exactly.
// Virtual time moves only when nothing is ready: to the next timer.
//
// Rules
//  1. Not thread safe: scheduler, processes and executors belong to one thread.
//  2. A lock must not be held across Yield or SleepFor: the other fibers run on the same thread and
//  would wait for ever.
//  3. A killed process' suspended fibers are unwound by a private exception thrown out of Yield or
//  SleepFor. So a destructor
//     must do no simulated I/O, and catch (...) around I/O must throw on. While it unwinds, Yield
//     does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "env/executor.h"
#include "env/sim/sim_clock.h"
#include "env/sim/sim_random.h"

namespace sarissa::env {

class SimFiber;
class SimProcess;
class SimScheduler;

// Runs the tasks of one process. At most `workers` of its tasks are in progress; the others queue.
// With one worker tasks start in order; with more, any of the first `workers` queued may start
// first.
class SimExecutor final : public Executor {
 public:
  bool Post(Task task) override;
  TimerId PostAfter(Duration delay, Task task) override;
  bool CancelTimer(TimerId timer) override;
  const std::string& name() const { return name_; }

 private:
  friend class SimProcess;
  friend class SimScheduler;
  SimExecutor(SimProcess& process, std::string name, size_t workers)
      : process_(process), name_(std::move(name)), workers_(workers) {}

  size_t Startable() const;

  SimProcess& process_;
  const std::string name_;
  const size_t workers_;
  size_t busy_ = 0;
  std::deque<Task> queue_;
};

// What dies together. Must not outlive the scheduler.
class SimProcess {
 public:
  explicit SimProcess(SimScheduler& scheduler);
  ~SimProcess();  // kills; not from one of its own fibers
  SimProcess(const SimProcess&) = delete;
  SimProcess& operator=(const SimProcess&) = delete;

  SimExecutor& MakeExecutor(std::string name, size_t workers);
  // Runs when the process is killed, before anything of it is unwound (a file system handle
  // detaches here).
  void OnKill(std::function<void()> hook) { kill_hooks_.push_back(std::move(hook)); }

  // From now on nothing of the process runs: its queued tasks and timers are destroyed, its
  // suspended fibers unwound. Called by one of its own fibers, that fiber ends at its next Yield,
  // SleepFor or simulated I/O call, and the rest is unwound as soon as it has.
  void Kill();
  bool alive() const { return alive_; }

 private:
  friend class SimExecutor;
  friend class SimScheduler;

  SimScheduler& scheduler_;
  bool alive_ = true;
  std::vector<std::unique_ptr<SimExecutor>> executors_;
  std::vector<std::function<void()>> kill_hooks_;
};

class SimScheduler {
 public:
  struct Options {
    uint64_t seed = 1;
    size_t stack_bytes = 512 << 10;  // per fiber; address space, touched as needed
  };
  static constexpr uint64_t kDefaultSteps = 10'000'000;

  explicit SimScheduler(Options options);
  explicit SimScheduler(uint64_t seed);
  ~SimScheduler();
  SimScheduler(const SimScheduler&) = delete;
  SimScheduler& operator=(const SimScheduler&) = delete;

  SimClock& clock() { return clock_; }
  SimRandom& random() { return random_; }

  // True inside a task.
  bool InFiber() const { return current_ != nullptr; }
  // Lets other tasks run. Outside a fiber it does nothing.
  void Yield();
  // Suspends the running fiber for `duration`. Outside a fiber it does nothing.
  void SleepFor(Duration duration);
  // Ends the running fiber if its process was killed (by the exception of rule 3).
  void EndIfKilled();

  // Runs until nothing is ready and no timer is set. False if `max_steps` task switches did not get
  // there.
  bool RunUntilIdle(uint64_t max_steps = kDefaultSteps);
  // Runs until `done` holds (true), or nothing is left to run, or the steps are used up (false).
  bool RunUntil(const std::function<bool()>& done, uint64_t max_steps = kDefaultSteps);
  // Runs everything that happens within `duration` of virtual time; the clock ends exactly there.
  void RunFor(Duration duration);

  uint64_t steps() const { return steps_; }
  // Hash over every scheduling decision and everything passed to Note: equal runs have equal
  // hashes.
  uint64_t trace_hash() const { return trace_hash_; }
  void Note(uint64_t value);
  void Note(std::string_view text);

 private:
  friend class SimExecutor;
  friend class SimProcess;
  friend class SimFiber;

  struct Timer {
    SimExecutor* executor = nullptr;  // null: wakes `fiber`
    Task task;
    SimFiber* fiber = nullptr;
  };
  using TimerKey = std::pair<MonotonicTime, TimerId>;

  TimerId AddTimer(Duration delay, Timer timer);
  bool CancelTimer(TimerId timer);
  // How many fibers may go on and tasks may start now.
  size_t Choices() const;
  // Runs one task until it gives way. False if nothing is ready.
  bool StepReady();
  // Moves time to the next timer that is not after `limit` and fires it. False if there is none.
  bool FireNextTimer(MonotonicTime limit);
  void Start(SimExecutor& executor, size_t queue_index);
  void Resume(SimFiber& fiber);
  void Suspend();
  void UnwindDead();
  void UnwindProcess(SimProcess& process);
  void Forget(SimProcess& process);

  const Options options_;
  SimClock clock_;
  SimRandom random_;
  std::vector<SimProcess*> processes_;
  std::map<uint64_t, std::unique_ptr<SimFiber>> fibers_;
  std::vector<SimFiber*> ready_;
  std::map<TimerKey, Timer> timers_;
  std::map<TimerId, MonotonicTime> timer_times_;
  std::vector<std::unique_ptr<SimFiber>> idle_fibers_;
  SimFiber* current_ = nullptr;
  bool kill_pending_ = false;
  uint64_t last_fiber_ = 0;
  TimerId last_timer_ = 0;
  uint64_t steps_ = 0;
  uint64_t trace_hash_ = 0;
};

}  // namespace sarissa::env
