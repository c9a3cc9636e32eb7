// The machine as an env::Env: owns the clock, the randomness, the two thread pools, the file system
// and the memory budget.
//
// Whoever uses env() must be gone, or have stopped posting, before Stop() or the destructor.
#pragma once

#include <cstdint>

#include "env/env.h"
#include "env/posix/posix_clock.h"
#include "env/posix/posix_file_system.h"
#include "env/posix/posix_random.h"
#include "env/posix/thread_pool.h"

namespace sarissa::env {

class PosixEnv {
 public:
  struct Options {
    int storage_threads = 8;
    int cpu_threads = 0;       // 0 = one per core
    int64_t memory_limit = 0;  // bytes; 0 = no limit
    SyncMode sync_mode = SyncMode::kAlways;
    EventLog* events = nullptr;  // outlives the environment; null: nobody listens
  };

  PosixEnv();
  explicit PosixEnv(const Options& options, MetricsSink& metrics = NullMetrics());
  ~PosixEnv();
  PosixEnv(const PosixEnv&) = delete;
  PosixEnv& operator=(const PosixEnv&) = delete;

  const Env& env() const { return env_; }
  // Queued tasks run to the end; tasks that these post are refused.
  void Stop();

 private:
  PosixClock clock_;
  PosixRandom random_;
  PosixFileSystem file_system_;
  MemoryBudget budget_;
  ThreadPool storage_;
  ThreadPool cpu_;
  Env env_;
};

}  // namespace sarissa::env
