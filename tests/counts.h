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

// A sanitizer makes the crash and simulation tests about ten times slower, and they would add
// nothing to what it can find after the first few states: those tests do less under one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

inline const int kMemtableHistories = Soak() ? 1'000'000 : 2'000;
inline const int kReadHistories = Soak() ? 2'000 : 12;
// Cases of each property test of a format.
inline const int kFormatCases = Soak() ? 1'000'000 : 2'000;
// Seeds of the simulation of four stores; SARISSA_SEEDS overrides. Every seed runs twice with an
// equal trace.
inline uint64_t StoreSimulationSeeds() {
  if (const char* value = std::getenv("SARISSA_SEEDS")) return std::strtoull(value, nullptr, 10);
  return Soak() ? 100'000 : kSanitized ? 20 : 300;
}
// Workloads whose every crash point is tried, and of how many distinct crash states one is
// reopened.
inline const uint64_t kCrashWorkloads = Soak() ? 20 : kSanitized ? 1 : 4;
inline const uint64_t kCrashStateStride = Soak() || !kSanitized ? 1 : 12;
// States of one search of the protocol's model. Several searches together: 10^6 and more, 10^8.
inline const uint64_t kProtocolStates = Soak() ? 20'000'000 : kSanitized ? 100'000 : 1'000'000;
// Interleavings of writers that fight for one shard: those drawn from a seed.
inline const uint64_t kDuelSchedules = Soak() ? 2'000'000 : kSanitized ? 1'000 : 20'000;

// Of one short script in all orders: every schedule, but under a sanitizer the first ones only.
inline const uint64_t kDuelOrders = kSanitized ? 300 : UINT64_MAX;

// Finds of each of the threads that fight for a few places in the table cache.
inline const int kCacheFinds = Soak() ? 20'000 : kSanitized ? 50 : 300;
// Histories of the dirty set against a model, and of two processes on one registry.
inline const uint64_t kDirtySetHistories = Soak() ? 20'000 : kSanitized ? 20 : 200;
inline const uint64_t kRegistryHistories = Soak() ? 2'000 : kSanitized ? 3 : 15;
// Names that one registry gets one by one.
inline const int kRegistryAdds = Soak() ? 20'000 : kSanitized ? 200 : 2'000;

// Seed of a random test: SARISSA_SEED if set (to replay what a failure printed), else fixed, so
// that every run of `make test` is the same; `make soak` sets it anew each time.
inline uint64_t SeedFor(std::string_view test) {
  if (const char* value = std::getenv("SARISSA_SEED")) return std::strtoull(value, nullptr, 10);
  uint64_t seed = 0xcbf29ce484222325;
  for (const char c : test) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return seed;
}

}  // namespace sarissa::tests
