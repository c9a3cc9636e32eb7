#include "env/posix/thread_pool.h"

#include <pthread.h>

#include <algorithm>

#include "base/error.h"

namespace sarissa::env {
namespace {

MonotonicTime SteadyNow() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

// Which pool the calling thread works for.
thread_local const ThreadPool* current_pool = nullptr;

}  // namespace

ThreadPool::ThreadPool(Options options) : options_(std::move(options)) {
  SARISSA_CHECK(options_.threads > 0, "a pool of {} threads", options_.threads);
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  threads_.emplace_back([this] { WaitForTimers(); });
}

ThreadPool::~ThreadPool() {
  Stop();
}

bool ThreadPool::Post(Task task) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return false;
    queue_.push_back(std::move(task));
  }
  work_added_.notify_one();
  return true;
}

TimerId ThreadPool::PostAfter(Duration delay, Task task) {
  // A delay of years must not overflow the clock.
  constexpr Duration kLongest = std::chrono::hours(24 * 365 * 100);
  const MonotonicTime when = SteadyNow() + std::clamp(delay, Duration(0), kLongest);
  TimerId timer;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return 0;
    timer = ++last_timer_;
    timers_.emplace(TimerKey(when, timer), std::move(task));
    timer_times_.emplace(timer, when);
  }
  timers_changed_.notify_one();
  return timer;
}

bool ThreadPool::CancelTimer(TimerId timer) {
  Task dropped;  // dies after the lock is released
  const std::scoped_lock lock(mutex_);
  const auto time = timer_times_.find(timer);
  if (time == timer_times_.end()) return false;
  const auto found = timers_.find(TimerKey(time->second, timer));
  dropped = std::move(found->second);
  timers_.erase(found);
  timer_times_.erase(time);
  return true;
}

void ThreadPool::Stop() {
  SARISSA_CHECK(current_pool != this, "pool '{}' is stopped by one of its own tasks",
                options_.name);
  const std::scoped_lock stop_lock(stop_mutex_);
  std::map<TimerKey, Task> dropped;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    dropped.swap(timers_);
    timer_times_.clear();
  }
  work_added_.notify_all();
  timers_changed_.notify_all();
  dropped.clear();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::Work() {
  current_pool = this;
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      work_added_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

void ThreadPool::WaitForTimers() {
  current_pool = this;
  pthread_setname_np(pthread_self(), (options_.name.substr(0, 9) + "-timer").c_str());
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (timers_.empty()) {
      timers_changed_.wait(lock);
      continue;
    }
    const MonotonicTime next = timers_.begin()->first.first;
    if (next > SteadyNow()) {
      timers_changed_.wait_until(lock, next);
      continue;
    }
    auto timer = timers_.extract(timers_.begin());
    timer_times_.erase(timer.key().second);
    queue_.push_back(std::move(timer.mapped()));
    work_added_.notify_one();
  }
}

}  // namespace sarissa::env
