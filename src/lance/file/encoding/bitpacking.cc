#include "lance/file/encoding/bitpacking.h"

#include <cstring>

#include "lance/file/encoding/load.h"

namespace sarissa::lance {
namespace {

template <typename T>
void Unpack(uint64_t width, const uint8_t* words, uint8_t* out) {
  constexpr uint64_t kBits = 8 * sizeof(T);
  constexpr uint64_t kLanes = kPackedGroup / kBits;
  constexpr uint64_t kOrder[8] = {0, 4, 2, 6, 1, 5, 3, 7};
  const T mask =
      width == kBits ? static_cast<T>(~T{0}) : static_cast<T>((uint64_t{1} << width) - 1);
  for (uint64_t row = 0; row < kBits; ++row) {
    uint8_t* to = out + (kOrder[row / 8] * 16 + (row % 8) * 128) * sizeof(T);
    const uint64_t bit = row * width;
    const uint64_t shift = bit % kBits;
    const uint8_t* low = words + bit / kBits * kLanes * sizeof(T);
    if (shift + width <= kBits) {
      for (uint64_t lane = 0; lane < kLanes; ++lane) {
        const T word = Load<T>(low + lane * sizeof(T));
        Store<T>(to + lane * sizeof(T), static_cast<T>((word >> shift) & mask));
      }
      continue;
    }
    const uint8_t* high = low + kLanes * sizeof(T);
    for (uint64_t lane = 0; lane < kLanes; ++lane) {
      const T a = Load<T>(low + lane * sizeof(T));
      const T b = Load<T>(high + lane * sizeof(T));
      const T value = static_cast<T>((a >> shift) | static_cast<T>(b << (kBits - shift)));
      Store<T>(to + lane * sizeof(T), static_cast<T>(value & mask));
    }
  }
}

}  // namespace

void UnpackGroup(uint64_t bits, uint64_t width, const uint8_t* words, uint8_t* out) {
  if (width == 0) {
    std::memset(out, 0, kPackedGroup * bits / 8);
    return;
  }
  switch (bits) {
    case 8:
      return Unpack<uint8_t>(width, words, out);
    case 16:
      return Unpack<uint16_t>(width, words, out);
    case 32:
      return Unpack<uint32_t>(width, words, out);
    default:
      return Unpack<uint64_t>(width, words, out);
  }
}

}  // namespace sarissa::lance
