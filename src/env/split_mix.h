// SplitMix64: a counter and a mixing function. The counter may be atomic, which makes the generator
// lock free.
#pragma once

#include <cstdint>

namespace sarissa::env {

inline constexpr uint64_t kSplitMixStep = 0x9E3779B97F4A7C15;

constexpr uint64_t SplitMix(uint64_t counter) {
  uint64_t mixed = counter;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

}  // namespace sarissa::env
