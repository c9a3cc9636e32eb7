// The standard portable form of 32-bit Roaring bitmaps, as deletion files and fragment bitmaps hold
// it.
//
// u32 cookie (12346, then u32 containers; or 12347 with the count in its upper half, then a bit per
// container: is it a run), per container u16 key, u16 cardinality - 1, then (without runs, or from
// 4 containers on) u32 offsets, then the containers: sorted u16 values up to 4096, 8 KiB of bits
// above, runs as u16 count and (start, length - 1) pairs. Reading checks every length and order
// itself: bytes of any content are safe. Pure functions, thread safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace sarissa::lance {

// The values, ascending. kCorrupt names the container; more than `max_values` values are kCorrupt
// too.
Result<std::vector<uint32_t>> ParseRoaring(std::span<const uint8_t> bytes, uint64_t max_values);
// `values` strictly ascending.
std::string SerializeRoaring(std::span<const uint32_t> values);

}  // namespace sarissa::lance
