// CRC32C (Castagnoli): the checksum of our log trailers and sidecars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sarissa {

// Extends `crc` (0 to start) by `data`. Uses the CPU's instruction where it has one.
uint32_t Crc32c(std::span<const uint8_t> data, uint32_t crc = 0);

}  // namespace sarissa
