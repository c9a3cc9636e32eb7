// What an engine is given at construction: the world. All pointers are borrowed and outlive every
// user.
#pragma once

#include "env/clock.h"
#include "env/executor.h"
#include "env/file_system.h"
#include "env/memory_budget.h"
#include "env/metrics.h"
#include "env/random.h"

namespace sarissa::env {

struct Env {
  Clock* clock = nullptr;
  Random* random = nullptr;
  // Blocking file and network calls.
  Executor* storage = nullptr;
  // Decode, encode, filter: never blocks on I/O.
  Executor* cpu = nullptr;
  FileSystem* file_system = nullptr;
  MemoryBudget* budget = nullptr;
  MetricsSink* metrics = nullptr;
};

}  // namespace sarissa::env
