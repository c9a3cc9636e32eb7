#include "env/sim/sim_random.h"

#include "env/split_mix.h"

namespace sarissa::env {

uint64_t SimRandom::Next() {
  return SplitMix(state_.fetch_add(kSplitMixStep, std::memory_order_relaxed) + kSplitMixStep);
}

}  // namespace sarissa::env
