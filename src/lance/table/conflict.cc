#include "lance/table/conflict.h"

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
