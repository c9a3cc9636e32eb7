#include "memwal/names.h"

#include <fmt/format.h>

namespace sarissa::memwal {

std::string Rev64(uint64_t n) {
  std::string text(64, '0');
  for (size_t bit = 0; bit < 64; ++bit) {
    if ((n >> bit) & 1) text[bit] = '1';
  }
  return text;
}

std::optional<uint64_t> ParseRev64(std::string_view name, std::string_view suffix) {
  if (name.size() != 64 + suffix.size() || !name.ends_with(suffix)) return std::nullopt;
  uint64_t n = 0;
  for (size_t bit = 0; bit < 64; ++bit) {
    if (name[bit] != '0' && name[bit] != '1') return std::nullopt;
    if (name[bit] == '1') n |= uint64_t{1} << bit;
  }
  return n;
}

std::string MemWalPrefix(const std::string& table) {
  return table + "/_mem_wal/";
}

std::string ShardPrefix(const std::string& table, const ShardId& shard) {
  return MemWalPrefix(table) + shard.ToString() + "/";
}

std::string LogPrefix(const std::string& table, const ShardId& shard) {
  return ShardPrefix(table, shard) + "wal/";
}

std::string LogEntryName(const std::string& table, const ShardId& shard, LogPosition position) {
  return LogPrefix(table, shard) + Rev64(position.value()) + ".arrow";
}

std::string ShardManifestPrefix(const std::string& table, const ShardId& shard) {
  return ShardPrefix(table, shard) + "manifest/";
}

std::string ShardManifestName(const std::string& table, const ShardId& shard,
                              ShardManifestVersion version) {
  return ShardManifestPrefix(table, shard) + Rev64(version.value()) + ".binpb";
}

std::string ShardManifestHintName(const std::string& table, const ShardId& shard) {
  return ShardManifestPrefix(table, shard) + "version_hint.json";
}

std::string GenerationFolder(uint64_t random, Generation generation) {
  return fmt::format("{:08x}_gen_{}", static_cast<uint32_t>(random), generation);
}

}  // namespace sarissa::memwal
