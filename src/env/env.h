// What an engine is given at construction: the world. All pointers are borrowed and outlive every
// user.
#pragma once

#include "env/clock.h"
#include "env/event_log.h"
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
  EventLog* events = nullptr;  // may be null: nobody listens
};

inline void Tell(const Env& env, EventLog::Level level, std::string_view event,
                 const EventLog::Fields& fields) {
  if (env.events != nullptr) env.events->Write(level, event, fields);
}

}  // namespace sarissa::env
