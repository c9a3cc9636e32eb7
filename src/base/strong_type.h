// Strong types for the numbers that must never be mixed up: an epoch is not a generation.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>

namespace sarissa {

// A u64 with a name. Ordered and hashable; arithmetic only by Next() and explicit value().
template <typename Tag>
class StrongU64 {
 public:
  constexpr StrongU64() = default;
  constexpr explicit StrongU64(uint64_t value) : value_(value) {}
  constexpr uint64_t value() const { return value_; }
  constexpr StrongU64 Next() const { return StrongU64(value_ + 1); }
  constexpr auto operator<=>(const StrongU64&) const = default;

 private:
  uint64_t value_ = 0;
};

// Fencing token of a shard; 0 = never claimed.
using Epoch = StrongU64<struct EpochTag>;
// Number of a memtable and of the generation it is flushed to; starts at 1, the base table counts
// as 0.
using Generation = StrongU64<struct GenerationTag>;
// Position of a log entry within its shard; 1-based and dense, 0 = nothing.
using LogPosition = StrongU64<struct LogPositionTag>;
// Version of a Lance table manifest; 1-based.
using TableVersion = StrongU64<struct TableVersionTag>;
// Version of a shard manifest; 1-based.
using ShardManifestVersion = StrongU64<struct ShardManifestVersionTag>;

}  // namespace sarissa

template <typename Tag>
struct fmt::formatter<sarissa::StrongU64<Tag>> : fmt::formatter<uint64_t> {
  template <typename Context>
  auto format(const sarissa::StrongU64<Tag>& v, Context& ctx) const {
    return fmt::formatter<uint64_t>::format(v.value(), ctx);
  }
};

template <typename Tag>
struct std::hash<sarissa::StrongU64<Tag>> {
  size_t operator()(const sarissa::StrongU64<Tag>& v) const noexcept {
    return std::hash<uint64_t>()(v.value());
  }
};
