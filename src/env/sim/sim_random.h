// Randomness that repeats: the same seed gives the same numbers (SplitMix64). Thread safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "env/random.h"

namespace sarissa::env {

class SimRandom final : public Random {
 public:
  explicit SimRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next() override;

 private:
  // Relaxed: each value is handed out once, nothing else is ordered by it.
  std::atomic<uint64_t> state_;
};

}  // namespace sarissa::env
