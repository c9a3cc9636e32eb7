// The FastLanes order of bit-packed integers: 1024 values at a time, in 1024 / T lanes of T-bit
// words.
//
// Value number `row` of lane `l` is input position order[row / 8] * 16 + (row % 8) * 128 + l; a
// lane's packed words are words l, lanes + l, 2 * lanes + l ... and hold the values of its rows one
// after the other, low bits first.
#pragma once

#include <cstdint>

namespace sarissa::lance {

inline constexpr uint64_t kPackedGroup = 1024;

// Unpacks one group of 1024 values of `bits` (8, 16, 32, 64) bits from `width` <= bits bits each.
// `words` holds 128 * width bytes, `out` takes 128 * bits bytes; neither needs alignment.
void UnpackGroup(uint64_t bits, uint64_t width, const uint8_t* words, uint8_t* out);

}  // namespace sarissa::lance
