#include "memwal/seal_fence.h"

#include <algorithm>
#include <memory>
#include <mutex>

namespace sarissa::memwal {
namespace {

// Leaf lock.
struct Gathering {
  std::mutex mutex;
  size_t missing = 0;
  FlushOutcome last;
  Status failure;
  env::Promise<FlushOutcome> promise;
};

}  // namespace

env::Future<FlushOutcome> SealFence::Wait(env::Executor& executor) const {
  if (!settled_.ok()) return env::Future<FlushOutcome>::Ready(settled_);
  if (outcomes_.empty()) return env::Future<FlushOutcome>::Ready(FlushOutcome{});
  auto gathering = std::make_shared<Gathering>();
  gathering->missing = outcomes_.size();
  env::Future<FlushOutcome> all = gathering->promise.future();
  for (const auto& outcome : outcomes_) {
    outcome.Then(executor, [gathering](const Result<FlushOutcome>& result) {
      std::unique_lock lock(gathering->mutex);
      if (!result.ok() && gathering->failure.ok()) gathering->failure = result.status();
      if (result.ok()) {
        gathering->last.generation = std::max(gathering->last.generation, result->generation);
        gathering->last.rows += result->rows;
      }
      if (--gathering->missing > 0) return;
      lock.unlock();
      if (!gathering->failure.ok()) {
        gathering->promise.Set(gathering->failure);
      } else {
        gathering->promise.Set(gathering->last);
      }
    });
  }
  return all;
}

}  // namespace sarissa::memwal
