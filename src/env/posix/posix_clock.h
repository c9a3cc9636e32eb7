// The machine's clocks.
#pragma once

#include "env/clock.h"

namespace sarissa::env {

class PosixClock final : public Clock {
 public:
  MonotonicTime Now() const override;
  WallTime WallNow() const override;
};

}  // namespace sarissa::env
