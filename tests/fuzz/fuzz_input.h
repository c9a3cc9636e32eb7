// What every fuzz target needs: its input in memory of exactly its size, so that the sanitizers see
// every byte read past the end, and repeated choices drawn from the input itself.
#pragma once

#include <arrow/buffer.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"

namespace sarissa::fuzz {

inline std::shared_ptr<arrow::Buffer> ExactBuffer(std::span<const uint8_t> bytes) {
  return arrow::Buffer::FromVector(std::vector<uint8_t>(bytes.begin(), bytes.end()));
}

inline std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// A 64 bit hash of the input: the target's source of choices, the same at every run.
inline uint64_t SeedOf(std::span<const uint8_t> bytes) {
  return (uint64_t{Crc32c(bytes)} << 32 | bytes.size()) * 0x9E3779B97F4A7C15ULL;
}

// `bytes` with its last four replaced by the CRC32C of the others: else a checksum keeps the fuzzer
// from everything behind it.
inline std::vector<uint8_t> WithChecksum(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> out(bytes.begin(), bytes.end());
  if (out.size() < 4) return out;
  const uint32_t crc = Crc32c(bytes.first(bytes.size() - 4));
  for (size_t i = 0; i < 4; ++i) out[out.size() - 4 + i] = static_cast<uint8_t>(crc >> (8 * i));
  return out;
}

}  // namespace sarissa::fuzz
