#include "env/posix/posix_env.h"

#include <algorithm>
#include <thread>

namespace sarissa::env {
namespace {

int CoresOr(int threads) {
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

PosixEnv::PosixEnv() : PosixEnv(Options()) {}

PosixEnv::PosixEnv(const Options& options, MetricsSink& metrics)
    : file_system_({.sync_mode = options.sync_mode, .unnamed_files = true}),
      budget_(options.memory_limit),
      storage_({.name = "storage", .threads = options.storage_threads}),
      cpu_({.name = "cpu", .threads = CoresOr(options.cpu_threads)}),
      env_{.clock = &clock_,
           .random = &random_,
           .storage = &storage_,
           .cpu = &cpu_,
           .file_system = &file_system_,
           .budget = &budget_,
           .metrics = &metrics,
           .events = options.events} {}

PosixEnv::~PosixEnv() {
  Stop();
}

void PosixEnv::Stop() {
  storage_.Stop();
  cpu_.Stop();
}

}  // namespace sarissa::env
