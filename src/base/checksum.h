// CRC32C (Castagnoli): the checksum of our log trailers and sidecars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace sarissa {

// Extends `crc` (0 to start) by `data`. Uses the CPU's instruction where it has one.
uint32_t Crc32c(std::span<const uint8_t> data, uint32_t crc = 0);

// The frame of our sidecars: the last four bytes are the little-endian CRC32C of all before them.
void AppendCrc32c(std::string& bytes);
// The bytes without their checksum; nothing when it does not fit.
std::optional<std::span<const uint8_t>> CheckedByCrc32c(std::span<const uint8_t> bytes);

}  // namespace sarissa
