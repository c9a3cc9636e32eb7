// Little-endian loads and stores at any alignment. The format is little-endian throughout; so are
// the machines we build for.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace sarissa::lance {

static_assert(std::endian::native == std::endian::little);

template <typename T>
inline T Load(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
inline void Store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

}  // namespace sarissa::lance
