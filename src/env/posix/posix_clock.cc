#include "env/posix/posix_clock.h"

namespace sarissa::env {

MonotonicTime PosixClock::Now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

WallTime PosixClock::WallNow() const {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace sarissa::env
