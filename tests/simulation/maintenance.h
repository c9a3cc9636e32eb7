// Merge and clean-up of a store's shard, as the simulated worlds call them.
#pragma once

#include "memwal/clean_up.h"
#include "memwal/merge.h"
#include "tests/simulation/store_process.h"

namespace sarissa::simulation {

// `state` and `process` go together.
inline Status CleanUp(StoreProcess& process, const std::string& name, env::Duration retention,
                      std::map<std::string, memwal::CleanUpState>& state) {
  return process.Run([&process, name, retention, &state]() -> Status {
    memwal::CleanUpOptions options;
    options.store = &process.faults();
    options.clock = process.env().clock;
    options.table = StoreProcess::PathOf(name);
    options.shard = ShardId::FromName("default");
    options.retention = retention;
    memwal::CleanUpReport report;
    return CleanUpShard(options, state[name], report);
  });
}

inline Status Merge(StoreProcess& process, const std::string& name) {
  return process.Run([&process, name]() -> Status {
    memwal::MergeOptions options;
    options.store = &process.faults();
    options.env = &process.env();
    options.table = StoreProcess::PathOf(name);
    options.shard = ShardId::FromName("default");
    memwal::MergeReport report;
    return MergeGenerations(options, report);
  });
}

}  // namespace sarissa::simulation
