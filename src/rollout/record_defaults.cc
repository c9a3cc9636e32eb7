#include "rollout/record_defaults.h"

namespace sarissa::rollout {

Status AppendDefault(RecordColumns& columns, Column column, env::WallTime now) {
  switch (column) {
    case kId:
    case kRolloutId:
      return Error(ErrorKind::kInvalid, "missing required field");
    case kProblemId:
      return columns.AppendText(kProblemId, columns.LastText(kRolloutId));
    case kSequenceOrder:
      return columns.AppendInt32(kSequenceOrder, 0);
    case kRole:
      return columns.AppendRole("assistant");
    case kCreatedAt:
      return columns.AppendTimestamp(now.time_since_epoch().count());
    case kContentType:
      return columns.AppendText(kContentType, "text/plain");
    case kRelationships:
      return columns.BeginRelationships();
    default:
      return columns.AppendNull(column);
  }
}

}  // namespace sarissa::rollout
