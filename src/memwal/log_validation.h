// Looks at a shard's log before anything is claimed or changed: is everything there that must be,
// and can it all be replayed? A log that lost rows is refused, so that a doomed open fences nobody
// and a later writer cannot bury the hole.
//
// Positions above the replay cursor are dense (S1). What may be passed over: a torn last entry,
// because a put that is not whole was never acknowledged; and one that a later claim found to be
// the last and recorded in its sentinel. Functions block on the store.
#pragma once

#include <optional>
#include <set>

#include "base/strong_type.h"
#include "memwal/shard_log.h"
#include "memwal/shard_manifest.h"

namespace sarissa::memwal {

struct LogExtent {
  LogPosition first;  // first position above the replay cursor
  LogPosition end;    // first free position
};

// kCorrupt names the first entry that is missing: below a present one, or at or below the highest
// position that the manifest says was seen.
Result<LogExtent> FindLogExtent(ShardLog& log, const ShardManifest& manifest);

struct LogFindings {
  std::set<LogPosition> passed_over;     // torn entries that lost nothing
  std::optional<LogPosition> torn_last;  // the one among them that no sentinel records yet
};

// Decodes every entry of `extent`. kCorrupt: damaged, torn in the middle, generations that go
// backwards. kFenced: an entry of an epoch above `highest_epoch`.
Result<LogFindings> ValidateLog(ShardLog& log, const LogExtent& extent, Epoch highest_epoch);

}  // namespace sarissa::memwal
