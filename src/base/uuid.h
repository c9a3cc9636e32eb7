// UUIDs: 16 bytes in RFC 4122 order. Shard ids, transaction ids and incarnations are UUIDs.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sarissa {

struct Uuid {
  std::array<uint8_t, 16> bytes{};

  // Lower-case, hyphenated: "02e81b29-f150-54b9-9a08-ce75944f6889".
  std::string ToString() const;

  // Accepts the hyphenated form in either case; anything else is kInvalid.
  static Result<Uuid> Parse(std::string_view text);

  // Version 5 (SHA-1) in the OID namespace: how the original derives a shard id from an instance
  // id.
  static Uuid FromName(std::string_view name);

  // Version 4 from 16 random bytes (only the version and variant bits are replaced).
  static Uuid FromRandom(uint64_t high, uint64_t low);

  auto operator<=>(const Uuid&) const = default;
};

// A shard of a table's MemWAL: one writer at a time owns it.
using ShardId = Uuid;

}  // namespace sarissa
