#include "memwal/mem_wal_index.h"

#include <algorithm>
#include <chrono>

#include "proto/lance_mem_wal.pb.h"

namespace sarissa::memwal {
namespace {

constexpr char kDetailsTypeUrl[] = "/lance.table.MemWalIndexDetails";

pb::table::IndexMetadata MakeEntry(const lance::Table& table, const env::Env& env) {
  pb::mem_wal::MemWalIndexDetails details;
  details.set_num_shards(1);
  auto* spec = details.add_sharding_specs();
  spec->set_spec_id(1);
  auto* field = spec->add_fields();
  field->set_field_id("bucket");
  field->set_transform("unsharded");
  field->set_result_type("int32");

  pb::table::IndexMetadata entry;
  const Uuid uuid = env.random->NextUuid();
  entry.mutable_uuid()->set_uuid(uuid.bytes.data(), uuid.bytes.size());
  entry.set_name(kMemWalIndexName);
  entry.set_dataset_version(table.version().value());
  entry.mutable_index_details()->set_type_url(kDetailsTypeUrl);
  entry.mutable_index_details()->set_value(details.SerializeAsString());
  entry.set_index_version(0);
  const auto since_epoch = std::chrono::duration_cast<std::chrono::milliseconds>(
      env.clock->WallNow().time_since_epoch());
  entry.set_created_at(static_cast<uint64_t>(since_epoch.count()));
  return entry;
}

const pb::table::IndexMetadata* FindEntry(const lance::Table& table) {
  const auto& indices = table.indices().indices();
  const auto found = std::find_if(indices.begin(), indices.end(), [](const auto& index) {
    return index.name() == kMemWalIndexName;
  });
  return found == indices.end() ? nullptr : &*found;
}

}  // namespace

bool HasMemWalIndex(const lance::Table& table) {
  return FindEntry(table) != nullptr;
}

Result<std::shared_ptr<lance::Table>> InitializeMemWal(const std::shared_ptr<lance::Table>& table,
                                                       const env::Env& env) {
  if (HasMemWalIndex(*table)) return table;
  auto committed = table->CommitIndices({MakeEntry(*table, env)}, {});
  if (committed.ok() || !Is(committed.status(), ErrorKind::kConflict)) return committed;
  lance::TableContext context = table->context();
  ARROW_ASSIGN_OR_RAISE(auto newest, lance::Table::Open(context, table->path()));
  if (HasMemWalIndex(*newest)) return newest;
  return committed.status();
}

Result<std::map<ShardId, Generation>> MergedGenerations(const lance::Table& table) {
  std::map<ShardId, Generation> merged;
  const auto* entry = FindEntry(table);
  if (entry == nullptr) return merged;
  pb::mem_wal::MemWalIndexDetails details;
  if (!details.ParseFromString(entry->index_details().value())) {
    return Error(ErrorKind::kCorrupt, "{} version {}: the details of {} cannot be parsed",
                 table.path(), table.version(), kMemWalIndexName);
  }
  for (const auto& compacted : details.compacted_sstables()) {
    const std::string& bytes = compacted.shard_id().uuid();
    ShardId shard;
    if (bytes.size() != shard.bytes.size()) {
      return Error(ErrorKind::kCorrupt, "{} version {}: a merged shard has an id of {} bytes",
                   table.path(), table.version(), bytes.size());
    }
    std::copy(bytes.begin(), bytes.end(), shard.bytes.begin());
    merged[shard] = std::max(merged[shard], Generation(compacted.generation()));
  }
  return merged;
}

}  // namespace sarissa::memwal
