// Finds the bytes that end or interrupt the plain run of a JSON string, eight at a time. Pure
// functions, thread safe.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace sarissa::rollout {

static_assert(std::endian::native == std::endian::little,
              "the word scan takes the lowest byte as the first");

// The first byte of [at, end) that is a quote, a backslash or a control character; `end` when there
// is none.
inline const char* FindStringSpecial(const char* at, const char* end) {
  constexpr uint64_t kOnes = 0x0101010101010101ULL;
  constexpr uint64_t kHighs = 0x8080808080808080ULL;
  while (end - at >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    const uint64_t quote = word ^ (kOnes * '"');
    const uint64_t backslash = word ^ (kOnes * '\\');
    const uint64_t hits = (((word - kOnes * 0x20) & ~word) | ((quote - kOnes) & ~quote) |
                           ((backslash - kOnes) & ~backslash)) &
                          kHighs;
    // A borrow can only make a false hit above a true one, so the lowest is right.
    if (hits != 0) return at + std::countr_zero(hits) / 8;
    at += 8;
  }
  while (at != end && static_cast<unsigned char>(*at) >= 0x20 && *at != '"' && *at != '\\') ++at;
  return at;
}

}  // namespace sarissa::rollout
