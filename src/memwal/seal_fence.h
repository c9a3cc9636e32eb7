// A seal fence: the fixed set of flush outcomes that were outstanding when the seal took the
// shard's lock (S4).
//
// Later freezes neither extend nor satisfy it, and it never looks at the manifest's current
// generation. A failure that settled before the seal fails the fence. It completes exactly once,
// also when the shard stops.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/strong_type.h"
#include "env/executor.h"
#include "env/future.h"

namespace sarissa::memwal {

// What the flush of one generation came to.
struct FlushOutcome {
  Generation generation;
  uint64_t rows = 0;
};

class SealFence {
 public:
  // `outcomes` in generation order; `settled` is a failure from before the seal.
  SealFence(std::optional<Generation> sealed, std::vector<env::Future<FlushOutcome>> outcomes,
            Status settled)
      : sealed_(sealed), outcomes_(std::move(outcomes)), settled_(std::move(settled)) {}

  // What this seal froze; empty when the active memtable had no rows. For reports only.
  std::optional<Generation> sealed_generation() const { return sealed_; }

  // Completes when every outcome of the set has: the highest generation (0 when the set is empty)
  // and the rows of all of them, or the first failure.
  env::Future<FlushOutcome> Wait(env::Executor& executor) const;

 private:
  std::optional<Generation> sealed_;
  std::vector<env::Future<FlushOutcome>> outcomes_;
  Status settled_;
};

}  // namespace sarissa::memwal
