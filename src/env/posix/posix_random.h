// Randomness seeded by the kernel (getrandom). Thread safe, lock free.
#pragma once

#include <atomic>
#include <cstdint>

#include "env/random.h"

namespace sarissa::env {

class PosixRandom final : public Random {
 public:
  PosixRandom();
  uint64_t Next() override;

 private:
  // The counter of a SplitMix64 generator. Relaxed: each value is handed out once, nothing else is
  // ordered by it.
  std::atomic<uint64_t> state_;
};

}  // namespace sarissa::env
