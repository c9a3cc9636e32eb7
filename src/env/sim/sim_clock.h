// A clock that moves only when it is told to. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "env/clock.h"

namespace sarissa::env {

class SimClock final : public Clock {
 public:
  MonotonicTime Now() const override;
  WallTime WallNow() const override;

  // Both clocks go on by `duration` (not negative).
  void Advance(Duration duration);
  // Only the wall clock jumps, in either direction.
  void JumpWall(Duration duration);

 private:
  // Relaxed: a simulation is one thread; elsewhere only the value itself matters.
  std::atomic<int64_t> now_ns_{0};
  std::atomic<int64_t> wall_offset_ns_{0};
};

}  // namespace sarissa::env
