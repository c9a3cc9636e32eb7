// A clock that stands still until a test moves it, and text as the bytes of an object.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "env/clock.h"

namespace sarissa::memwal::testing {

class HandClock final : public env::Clock {
 public:
  env::MonotonicTime Now() const override { return now_; }
  env::WallTime WallNow() const override { return {}; }
  void Advance(env::Duration by) { now_ += by; }

 private:
  env::MonotonicTime now_{};
};

inline std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace sarissa::memwal::testing
