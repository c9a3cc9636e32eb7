#include "env/sim/sim_scheduler.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "env/sim/sim_fiber.h"

namespace sarissa::env {

bool SimExecutor::Post(Task task) {
  if (!process_.alive_) return false;
  queue_.push_back(std::move(task));
  return true;
}

TimerId SimExecutor::PostAfter(Duration delay, Task task) {
  if (!process_.alive_) return 0;
  return process_.scheduler_.AddTimer(
      delay, {.executor = this, .task = std::move(task), .fiber = nullptr});
}

bool SimExecutor::CancelTimer(TimerId timer) {
  return process_.scheduler_.CancelTimer(timer);
}

size_t SimExecutor::Startable() const {
  return std::min(queue_.size(), workers_ - busy_);
}

SimProcess::SimProcess(SimScheduler& scheduler) : scheduler_(scheduler) {
  scheduler_.processes_.push_back(this);
}

SimProcess::~SimProcess() {
  Kill();
  scheduler_.Forget(*this);
}

SimExecutor& SimProcess::MakeExecutor(std::string name, size_t workers) {
  SARISSA_CHECK(workers > 0, "an executor without workers");
  executors_.push_back(
      std::unique_ptr<SimExecutor>(new SimExecutor(*this, std::move(name), workers)));
  return *executors_.back();
}

void SimProcess::Kill() {
  if (!alive_) return;
  alive_ = false;
  const std::vector<std::function<void()>> hooks = std::exchange(kill_hooks_, {});
  for (const auto& hook : hooks) hook();
  if (scheduler_.current_ != nullptr && &scheduler_.current_->executor().process_ == this) {
    // A fiber cannot unwind itself from here.
    scheduler_.kill_pending_ = true;
    return;
  }
  scheduler_.UnwindProcess(*this);
}

SimScheduler::SimScheduler(Options options) : options_(options), random_(options.seed) {}

SimScheduler::SimScheduler(uint64_t seed) : SimScheduler(Options{.seed = seed}) {}

SimScheduler::~SimScheduler() {
  SARISSA_CHECK(processes_.empty(), "{} processes outlive their scheduler", processes_.size());
}

void SimScheduler::Yield() {
  if (current_ == nullptr) return;
  if (!current_->executor().process_.alive_) return EndIfKilled();
  ready_.push_back(current_);
  Suspend();
}

void SimScheduler::SleepFor(Duration duration) {
  if (current_ == nullptr) return;
  if (!current_->executor().process_.alive_) return EndIfKilled();
  AddTimer(duration, {.executor = nullptr, .task = nullptr, .fiber = current_});
  Suspend();
}

void SimScheduler::EndIfKilled() {
  if (current_ == nullptr || current_->executor().process_.alive_) return;
  // An exception in flight means that the fiber is being unwound already; another would end the
  // program.
  if (std::uncaught_exceptions() == 0) throw FiberKilled();
}

void SimScheduler::Suspend() {
  current_->GiveWay();
  EndIfKilled();
}

void SimScheduler::Resume(SimFiber& fiber) {
  SimFiber* const outer = std::exchange(current_, &fiber);
  fiber.Resume();
  current_ = outer;
  if (!fiber.idle()) return;
  --fiber.executor().busy_;
  auto done = fibers_.extract(fiber.id());
  idle_fibers_.push_back(std::move(done.mapped()));
}

void SimScheduler::Start(SimExecutor& executor, size_t queue_index) {
  const auto at = executor.queue_.begin() + static_cast<std::ptrdiff_t>(queue_index);
  Task task = std::move(*at);
  executor.queue_.erase(at);
  ++executor.busy_;
  std::unique_ptr<SimFiber> fiber;
  if (idle_fibers_.empty()) {
    fiber = std::make_unique<SimFiber>(options_.stack_bytes);
  } else {
    fiber = std::move(idle_fibers_.back());
    idle_fibers_.pop_back();
  }
  fiber->Assign(++last_fiber_, executor, std::move(task));
  SimFiber& started = *fiber;
  fibers_.emplace(started.id(), std::move(fiber));
  Note(started.id());
  Resume(started);
}

size_t SimScheduler::Choices() const {
  size_t choices = ready_.size();
  for (const SimProcess* process : processes_) {
    for (const auto& executor : process->executors_) choices += executor->Startable();
  }
  return choices;
}

bool SimScheduler::StepReady() {
  SARISSA_CHECK(current_ == nullptr, "the scheduler is run from inside a task");
  const size_t choices = Choices();
  if (choices == 0) return false;
  ++steps_;
  size_t choice = random_.Below(choices);
  if (choice < ready_.size()) {
    SimFiber& fiber = *ready_[choice];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(choice));
    Note(fiber.id());
    Resume(fiber);
    UnwindDead();
    return true;
  }
  choice -= ready_.size();
  for (const SimProcess* process : processes_) {
    for (const auto& executor : process->executors_) {
      const size_t startable = executor->Startable();
      if (choice < startable) {
        Start(*executor, choice);
        UnwindDead();
        return true;
      }
      choice -= startable;
    }
  }
  SARISSA_CHECK(false, "a choice beyond the ready tasks");
  return false;
}

TimerId SimScheduler::AddTimer(Duration delay, Timer timer) {
  // A delay of years must not overflow the clock.
  constexpr Duration kLongest = std::chrono::hours(24 * 365 * 100);
  const TimerId id = ++last_timer_;
  const MonotonicTime when = clock_.Now() + std::clamp(delay, Duration(0), kLongest);
  timers_.emplace(TimerKey(when, id), std::move(timer));
  timer_times_.emplace(id, when);
  return id;
}

bool SimScheduler::CancelTimer(TimerId timer) {
  const auto time = timer_times_.find(timer);
  if (time == timer_times_.end()) return false;
  // The task dies at the end of this scope, when the maps are in order again.
  const auto dropped = timers_.extract(TimerKey(time->second, timer));
  timer_times_.erase(time);
  return true;
}

bool SimScheduler::FireNextTimer(MonotonicTime limit) {
  if (timers_.empty() || timers_.begin()->first.first > limit) return false;
  const MonotonicTime when = timers_.begin()->first.first;
  clock_.Advance(when - clock_.Now());
  Note(static_cast<uint64_t>(when.time_since_epoch().count()));
  // All timers of one moment become ready together, so that their order is drawn, too.
  while (!timers_.empty() && timers_.begin()->first.first == when) {
    auto timer = timers_.extract(timers_.begin());
    timer_times_.erase(timer.key().second);
    if (timer.mapped().executor != nullptr) {
      timer.mapped().executor->queue_.push_back(std::move(timer.mapped().task));
    } else {
      ready_.push_back(timer.mapped().fiber);
    }
  }
  return true;
}

bool SimScheduler::RunUntilIdle(uint64_t max_steps) {
  RunUntil([] { return false; }, max_steps);
  return Choices() == 0 && timers_.empty();
}

bool SimScheduler::RunUntil(const std::function<bool()>& done, uint64_t max_steps) {
  const uint64_t last = max_steps > UINT64_MAX - steps_ ? UINT64_MAX : steps_ + max_steps;
  for (;;) {
    if (done()) return true;
    if (steps_ >= last) return false;
    if (!StepReady() && !FireNextTimer(MonotonicTime::max())) return false;
  }
}

void SimScheduler::RunFor(Duration duration) {
  const MonotonicTime end = clock_.Now() + duration;
  const uint64_t last = steps_ + kDefaultSteps;
  while (StepReady() || FireNextTimer(end)) {
    SARISSA_CHECK(steps_ < last, "tasks keep each other busy and time stands still");
  }
  clock_.Advance(end - clock_.Now());
}

void SimScheduler::UnwindDead() {
  if (!kill_pending_) return;
  kill_pending_ = false;
  const std::vector<SimProcess*> processes = processes_;
  for (SimProcess* process : processes) {
    if (!process->alive_) UnwindProcess(*process);
  }
}

void SimScheduler::UnwindProcess(SimProcess& process) {
  std::vector<Timer> dropped_timers;
  for (auto at = timers_.begin(); at != timers_.end();) {
    const SimExecutor& executor =
        at->second.executor != nullptr ? *at->second.executor : at->second.fiber->executor();
    if (&executor.process_ != &process) {
      ++at;
      continue;
    }
    timer_times_.erase(at->first.second);
    dropped_timers.push_back(std::move(at->second));
    at = timers_.erase(at);
  }
  std::deque<Task> dropped_tasks;
  for (const auto& executor : process.executors_) {
    std::move(executor->queue_.begin(), executor->queue_.end(), std::back_inserter(dropped_tasks));
    executor->queue_.clear();
  }
  std::erase_if(ready_,
                [&](const SimFiber* fiber) { return &fiber->executor().process_ == &process; });
  std::vector<SimFiber*> suspended;
  for (const auto& [id, fiber] : fibers_) {
    if (&fiber->executor().process_ == &process) suspended.push_back(fiber.get());
  }
  for (SimFiber* fiber : suspended) {
    Resume(*fiber);
    SARISSA_CHECK(fiber->idle(),
                  "a killed task caught the exception that unwinds it and gave way again");
  }
}

void SimScheduler::Forget(SimProcess& process) {
  SARISSA_CHECK(current_ == nullptr || &current_->executor().process_ != &process,
                "a task destroys its own process");
  std::erase(processes_, &process);
}

void SimScheduler::Note(uint64_t value) {
  constexpr uint64_t kFnvPrime = 0x100000001B3;
  trace_hash_ = (trace_hash_ ^ value) * kFnvPrime + (trace_hash_ >> 47);
}

void SimScheduler::Note(std::string_view text) {
  for (const char c : text) Note(static_cast<uint64_t>(static_cast<unsigned char>(c)));
}

}  // namespace sarissa::env
