// Where the objects of a shard live: `{table}/_mem_wal/{shard}/` with manifest/, wal/ and one
// folder per generation.
//
// Numbered objects are named by rev64(n), the 64-digit binary text of n with the least significant
// bit first, so that consecutive numbers spread over an object store's key space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/strong_type.h"
#include "base/uuid.h"

namespace sarissa::memwal {

std::string Rev64(uint64_t n);
// The number of a name `rev64(n)` + `suffix`, or nothing when the name is something else (temporary
// or foreign files).
std::optional<uint64_t> ParseRev64(std::string_view name, std::string_view suffix);

// All prefixes end with '/'.
std::string MemWalPrefix(const std::string& table);
std::string ShardPrefix(const std::string& table, const ShardId& shard);
std::string LogPrefix(const std::string& table, const ShardId& shard);
std::string LogEntryName(const std::string& table, const ShardId& shard, LogPosition position);
std::string ShardManifestPrefix(const std::string& table, const ShardId& shard);
std::string ShardManifestName(const std::string& table, const ShardId& shard,
                              ShardManifestVersion version);
std::string ShardManifestHintName(const std::string& table, const ShardId& shard);
// Folder name of a generation within its shard: 8 hex digits that are new for every attempt,
// "_gen_", the number.
std::string GenerationFolder(uint64_t random, Generation generation);

}  // namespace sarissa::memwal
