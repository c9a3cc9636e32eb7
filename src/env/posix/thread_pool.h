// A fixed number of threads that run tasks in the order they were posted, and one thread that waits
// for timers.
//
// Thread safe. Stop() refuses new tasks, destroys timers that have not fired without running them,
// runs what is queued to the end and joins; the destructor stops. Stop must not be called from one
// of the pool's own tasks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "env/executor.h"

namespace sarissa::env {

class ThreadPool final : public Executor {
 public:
  struct Options {
    std::string name = "pool";  // shown as the threads' name, cut to 15 bytes
    int threads = 1;
  };

  explicit ThreadPool(Options options);
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  bool Post(Task task) override;
  TimerId PostAfter(Duration delay, Task task) override;
  bool CancelTimer(TimerId timer) override;

  void Stop();

 private:
  using TimerKey = std::pair<MonotonicTime, TimerId>;

  void Work();
  void WaitForTimers();

  const Options options_;
  std::mutex stop_mutex_;  // held by Stop while it joins; taken before mutex_
  std::mutex mutex_;       // leaf: no task runs or dies while it is held
  std::condition_variable work_added_;
  std::condition_variable timers_changed_;
  bool stopping_ = false;
  std::deque<Task> queue_;
  std::map<TimerKey, Task> timers_;
  std::unordered_map<TimerId, MonotonicTime> timer_times_;
  TimerId last_timer_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace sarissa::env
