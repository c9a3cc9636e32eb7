#include "env/sim/sim_clock.h"

#include "base/error.h"

namespace sarissa::env {
namespace {

// 2026-01-01T00:00:00Z: where the wall clock of every simulation starts.
constexpr std::chrono::seconds kWallStart{1767225600};

}  // namespace

MonotonicTime SimClock::Now() const {
  return MonotonicTime(Duration(now_ns_.load(std::memory_order_relaxed)));
}

WallTime SimClock::WallNow() const {
  const Duration since_start(now_ns_.load(std::memory_order_relaxed) +
                             wall_offset_ns_.load(std::memory_order_relaxed));
  return WallTime(kWallStart + std::chrono::floor<std::chrono::microseconds>(since_start));
}

void SimClock::Advance(Duration duration) {
  SARISSA_CHECK(duration.count() >= 0, "time runs backwards by {} ns", duration.count());
  now_ns_.fetch_add(duration.count(), std::memory_order_relaxed);
}

void SimClock::JumpWall(Duration duration) {
  wall_offset_ns_.fetch_add(duration.count(), std::memory_order_relaxed);
}

}  // namespace sarissa::env
