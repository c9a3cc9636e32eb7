#include "lance/table/compaction_watermark.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "lance/file/stable_bytes.h"

namespace sarissa::lance {
namespace {

Status Raise(const CompactedGeneration& compacted, pb::mem_wal::MemWalIndexDetails& details) {
  pb::mem_wal::CompactedSsTable* mine = nullptr;
  for (auto& entry : *details.mutable_compacted_sstables()) {
    ARROW_ASSIGN_OR_RAISE(const ShardId shard, ShardOf(entry));
    if (shard != compacted.shard) continue;
    if (compacted.generation.value() <= entry.generation()) {
      return Error(ErrorKind::kConflict,
                   "stale merge of shard {}: generation {} is not above the recorded generation {}",
                   shard.ToString(), compacted.generation, entry.generation());
    }
    if (mine == nullptr) mine = &entry;
    entry.set_generation(compacted.generation.value());
  }
  if (mine == nullptr) *details.add_compacted_sstables() = ToProto(compacted);
  return Status::OK();
}

}  // namespace

Result<ShardId> ShardOf(const pb::mem_wal::CompactedSsTable& entry) {
  const std::string& bytes = entry.shard_id().uuid();
  ShardId shard;
  if (bytes.size() != shard.bytes.size()) {
    return Error(ErrorKind::kCorrupt, "a merged shard has an id of {} bytes", bytes.size());
  }
  std::copy(bytes.begin(), bytes.end(), shard.bytes.begin());
  return shard;
}

pb::mem_wal::CompactedSsTable ToProto(const CompactedGeneration& compacted) {
  pb::mem_wal::CompactedSsTable out;
  out.mutable_shard_id()->set_uuid(compacted.shard.bytes.data(), compacted.shard.bytes.size());
  out.set_generation(compacted.generation.value());
  return out;
}

Status RaiseWatermarks(const std::vector<CompactedGeneration>& compacted, TableVersion version,
                       const env::Env& env, pb::table::IndexSection& indices) {
  auto& entries = *indices.mutable_indices();
  const auto entry = std::find_if(entries.begin(), entries.end(), [](const auto& index) {
    return index.name() == kMemWalIndexName;
  });
  if (entry == entries.end()) {
    return Error(ErrorKind::kInvalid, "the table has no {} entry to record a merge in",
                 kMemWalIndexName);
  }
  pb::mem_wal::MemWalIndexDetails details;
  if (!details.ParseFromString(entry->index_details().value())) {
    return Error(ErrorKind::kCorrupt, "the details of {} cannot be parsed", kMemWalIndexName);
  }
  std::set<ShardId> shards;
  for (const CompactedGeneration& generation : compacted) {
    if (!shards.insert(generation.shard).second) {
      return Error(ErrorKind::kInvalid, "shard {} is named twice in one commit",
                   generation.shard.ToString());
    }
    ARROW_RETURN_NOT_OK(Raise(generation, details));
  }
  const Uuid uuid = env.random->NextUuid();
  entry->mutable_uuid()->set_uuid(uuid.bytes.data(), uuid.bytes.size());
  entry->set_dataset_version(version.value());
  entry->mutable_index_details()->set_value(StableBytes(details));
  const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(
      env.clock->WallNow().time_since_epoch());
  entry->set_created_at(static_cast<uint64_t>(since_epoch.count()));
  return Status::OK();
}

}  // namespace sarissa::lance
