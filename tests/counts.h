// How much the random and crash tests do: the counts of `make test` and, with SARISSA_COUNTS=soak,
// of `make soak`. Lowering one is a commit of its own that says why.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace sarissa::tests {

inline bool Soak() {
  const char* value = std::getenv("SARISSA_COUNTS");
  return value != nullptr && std::string_view(value) == "soak";
}

inline const int kMemtableHistories = Soak() ? 100'000 : 500;
inline const int kReadHistories = Soak() ? 2'000 : 12;
// Seeds of the simulation of one shard: append, flush, crash, reopen. Every seed runs twice with an
// equal trace.
inline const uint64_t kShardSimulationSeeds = Soak() ? 20'000 : 50;

// Seed of a random test: SARISSA_SEED if set (to replay what a failure printed), else fixed, so
// that every run of `make test` is the same; `make soak` sets it anew each time.
inline uint64_t SeedFor(std::string_view test) {
  if (const char* value = std::getenv("SARISSA_SEED")) return std::strtoull(value, nullptr, 10);
  uint64_t seed = 0xcbf29ce484222325;
  for (const char c : test) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return seed;
}

}  // namespace sarissa::tests
