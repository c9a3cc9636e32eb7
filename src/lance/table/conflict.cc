#include "lance/table/conflict.h"

#include <algorithm>

#include "lance/table/compaction_watermark.h"

namespace sarissa::lance {
namespace {

using pb::transaction::Transaction;

Status Conflict(const char* ours, const Transaction& theirs, TableVersion version) {
  return Error(ErrorKind::kConflict, "{} cannot be rebased over version {}: {}", ours, version,
               OperationName(theirs));
}

}  // namespace

std::string OperationName(const Transaction& transaction) {
  if (transaction.operation_case() == Transaction::OPERATION_NOT_SET) return "unknown operation";
  return std::string(Transaction::descriptor()
                         ->FindFieldByNumber(static_cast<int>(transaction.operation_case()))
                         ->name());
}

Status CheckAppendOver(const Transaction& theirs, TableVersion version) {
  switch (theirs.operation_case()) {
    case Transaction::kAppend:
    case Transaction::kDelete:
    case Transaction::kCreateIndex:
    case Transaction::kRewrite:
    case Transaction::kReserveFragments:
    case Transaction::kUpdate:
    case Transaction::kUpdateConfig:
    case Transaction::kDataReplacement:
    case Transaction::kUpdateMemWalState:
      return Status::OK();
    default:
      return Conflict("an append", theirs, version);
  }
}

Status CheckDeleteOver(const Transaction& theirs, TableVersion version) {
  switch (theirs.operation_case()) {
    case Transaction::kAppend:
    case Transaction::kDelete:
    case Transaction::kCreateIndex:
    case Transaction::kRewrite:
    case Transaction::kMerge:
    case Transaction::kReserveFragments:
    case Transaction::kUpdate:
    case Transaction::kProject:
    case Transaction::kUpdateConfig:
    case Transaction::kDataReplacement:
    case Transaction::kUpdateMemWalState:
      return Status::OK();
    default:
      return Conflict("a delete", theirs, version);
  }
}

bool MayMoveRows(const Transaction& theirs) {
  return theirs.operation_case() == Transaction::kRewrite ||
         theirs.operation_case() == Transaction::kUpdate ||
         theirs.operation_case() == Transaction::kMerge;
}

Status CheckUpsertOver(const Transaction& theirs, TableVersion version,
                       const std::set<uint64_t>& fragments, const std::set<ShardId>& shards) {
  const auto touches = [&](const auto& ids, const auto& updated) {
    return std::any_of(ids.begin(), ids.end(),
                       [&](uint64_t id) { return fragments.contains(id); }) ||
           std::any_of(updated.begin(), updated.end(),
                       [&](const auto& fragment) { return fragments.contains(fragment.id()); });
  };
  const auto moves_watermark = [&](const auto& compacted) {
    return std::any_of(compacted.begin(), compacted.end(), [&](const auto& entry) {
      const auto shard = ShardOf(entry);
      return !shard.ok() || shards.contains(*shard);
    });
  };
  bool conflict = true;
  switch (theirs.operation_case()) {
    case Transaction::kAppend:
    case Transaction::kCreateIndex:
    case Transaction::kReserveFragments:
    case Transaction::kUpdateConfig:
      conflict = false;
      break;
    case Transaction::kDelete:
      conflict =
          touches(theirs.delete_().deleted_fragment_ids(), theirs.delete_().updated_fragments());
      break;
    case Transaction::kUpdate:
      conflict =
          !theirs.update().new_fragments().empty() ||
          touches(theirs.update().removed_fragment_ids(), theirs.update().updated_fragments()) ||
          moves_watermark(theirs.update().compacted_sstables());
      break;
    case Transaction::kUpdateMemWalState:
      conflict = moves_watermark(theirs.update_mem_wal_state().compacted_sstables());
      break;
    default:
      break;
  }
  return conflict ? Conflict("an upsert", theirs, version) : Status::OK();
}

Status CheckIndicesOver(const Transaction& theirs, TableVersion version, bool covers_fragments) {
  switch (theirs.operation_case()) {
    case Transaction::kAppend:
    case Transaction::kDelete:
    case Transaction::kCreateIndex:  // names are compared by the change itself
    case Transaction::kReserveFragments:
    case Transaction::kUpdateConfig:
    case Transaction::kUpdateMemWalState:
      return Status::OK();
    case Transaction::kRewrite:
    case Transaction::kMerge:
    case Transaction::kUpdate:
    case Transaction::kDataReplacement:
    case Transaction::kProject:
      return covers_fragments ? Conflict("an index entry", theirs, version) : Status::OK();
    default:
      return Conflict("an index entry", theirs, version);
  }
}

}  // namespace sarissa::lance
