// Time, injected: nothing outside env/ asks the operating system what time it is.
#pragma once

#include <chrono>

namespace sarissa::env {

using Duration = std::chrono::nanoseconds;
// Monotonic time since an arbitrary start; for deadlines and ages within one process.
using MonotonicTime = std::chrono::time_point<std::chrono::steady_clock, Duration>;
// Wall time since the Unix epoch; only for values a user sees. Nothing is ordered by it.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

// Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

}  // namespace sarissa::env
