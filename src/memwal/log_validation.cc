#include "memwal/log_validation.h"

#include <algorithm>

namespace sarissa::memwal {
namespace {

// True if the sentinel right above `torn` says that its claim passed over it.
Result<bool> RecordedAbove(ShardLog& log, LogPosition torn) {
  const auto above = log.Read(torn.Next());
  if (Is(above.status(), ErrorKind::kCorrupt)) return false;
  ARROW_RETURN_NOT_OK(above.status());
  return above->has_value() && (*above)->sentinel && (*above)->passed_over == torn;
}

Status PassOver(ShardLog& log, LogPosition position, const LogExtent& extent, const Status& damage,
                LogFindings& findings) {
  ARROW_ASSIGN_OR_RAISE(const bool torn, log.IsTorn(position));
  if (!torn) return damage;
  if (position.Next() == extent.end) {
    findings.torn_last = position;
  } else {
    ARROW_ASSIGN_OR_RAISE(const bool recorded, RecordedAbove(log, position));
    if (!recorded) return Annotate(damage, "entries follow a torn one, so its rows are lost");
  }
  findings.passed_over.insert(position);
  return Status::OK();
}

}  // namespace

Result<LogExtent> FindLogExtent(ShardLog& log, const ShardManifest& manifest) {
  ARROW_ASSIGN_OR_RAISE(const std::vector<LogPosition> present, log.List());
  LogExtent extent;
  extent.first = LogPosition(manifest.replay_after_wal_entry_position() + 1);
  extent.end = extent.first;
  for (const LogPosition position : present) {
    if (position < extent.first) continue;
    if (position != extent.end) {
      return Error(ErrorKind::kCorrupt,
                   "{} is missing below entry {}; refusing to replay around it",
                   log.NameOf(extent.end), position);
    }
    extent.end = extent.end.Next();
  }
  if (extent.end.value() <= manifest.wal_entry_position_last_seen()) {
    return Error(ErrorKind::kCorrupt, "{} is missing; entries up to {} were seen there",
                 log.NameOf(extent.end), manifest.wal_entry_position_last_seen());
  }
  return extent;
}

Result<LogFindings> ValidateLog(ShardLog& log, const LogExtent& extent, Epoch highest_epoch) {
  LogFindings findings;
  std::optional<Generation> mark;
  for (LogPosition position = extent.first; position < extent.end; position = position.Next()) {
    const auto entry = log.Read(position);
    if (Is(entry.status(), ErrorKind::kCorrupt)) {
      ARROW_RETURN_NOT_OK(PassOver(log, position, extent, entry.status(), findings));
      continue;
    }
    ARROW_RETURN_NOT_OK(entry.status());
    if (!entry->has_value()) {
      return Error(ErrorKind::kUnavailable, "{} was listed and is gone", log.NameOf(position));
    }
    if ((*entry)->epoch > highest_epoch) {
      return Error(ErrorKind::kFenced, "{} was written by epoch {}; the shard's is {} at most",
                   log.NameOf(position), (*entry)->epoch, highest_epoch);
    }
    const auto& generation = (*entry)->generation;
    if (!generation || (*entry)->sentinel) continue;
    if (mark && *generation < *mark) {
      return Error(ErrorKind::kCorrupt,
                   "{} has generation {} below generation {} of an older entry",
                   log.NameOf(position), *generation, *mark);
    }
    mark = generation;
  }
  return findings;
}

}  // namespace sarissa::memwal
