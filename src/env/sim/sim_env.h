// A simulated process as an env::Env: its executors, its view of the disk, its randomness. Time is
// the scheduler's.
//
// Scheduler and disk outlive it. Destroy what runs in it (engines, stores) after Kill() and before
// this object.
#pragma once

#include <cstdint>

#include "env/env.h"
#include "env/sim/sim_disk.h"
#include "env/sim/sim_file_system.h"
#include "env/sim/sim_random.h"
#include "env/sim/sim_scheduler.h"

namespace sarissa::env {

class SimEnv {
 public:
  struct Options {
    uint64_t seed = 1;
    size_t storage_workers = 4;
    size_t cpu_workers = 2;
    int64_t memory_limit = 0;
    uint32_t yield_percent = 50;
    Duration max_latency{0};
    MetricsSink* metrics = nullptr;  // null: NullMetrics
  };

  SimEnv(SimScheduler& scheduler, SimDisk& disk, const Options& options);
  ~SimEnv();  // kills
  SimEnv(const SimEnv&) = delete;
  SimEnv& operator=(const SimEnv&) = delete;

  const Env& env() const { return env_; }
  SimFileSystem& file_system() { return file_system_; }
  SimProcess& process() { return process_; }

  // The process dies here: its file system is detached, then its tasks are dropped and unwound.
  // SimDisk::Crash says what the disk kept.
  void Kill();

 private:
  SimProcess process_;
  SimRandom random_;
  SimFileSystem file_system_;
  MemoryBudget budget_;
  Env env_;
};

}  // namespace sarissa::env
