// Randomness, injected, so that a simulation replays from its seed.
#pragma once

#include <cstdint>

#include "base/uuid.h"

namespace sarissa::env {

// Thread safe. Not for secrets.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Next() = 0;
  // Uniform in [0, bound); bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  Uuid NextUuid() {
    const uint64_t high = Next();
    return Uuid::FromRandom(high, Next());
  }
};

}  // namespace sarissa::env
