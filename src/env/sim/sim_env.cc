#include "env/sim/sim_env.h"

namespace sarissa::env {

SimEnv::SimEnv(SimScheduler& scheduler, SimDisk& disk, const Options& options)
    : process_(scheduler),
      random_(options.seed),
      file_system_(
          disk,
          {.scheduler = &scheduler,
           // A stream of its own, so that file system calls do not shift what the program draws.
           .seed = ~options.seed,
           .yield_percent = options.yield_percent,
           .max_latency = options.max_latency}),
      budget_(options.memory_limit),
      env_{.clock = &scheduler.clock(),
           .random = &random_,
           .storage = &process_.MakeExecutor("storage", options.storage_workers),
           .cpu = &process_.MakeExecutor("cpu", options.cpu_workers),
           .file_system = &file_system_,
           .budget = &budget_,
           .metrics = options.metrics != nullptr ? options.metrics : &NullMetrics()} {
  process_.OnKill([this] { file_system_.Detach(); });
}

SimEnv::~SimEnv() {
  Kill();
}

void SimEnv::Kill() {
  process_.Kill();
}

}  // namespace sarissa::env
