// Clean-up of one shard: removes log entries, shard manifests and generation folders that nothing
// needs any more. A library: whoever schedules it calls it on the storage executor.
//
// What goes, in this order
//  log entries   at or below the replay cursor of the newest manifest (and at or below its last
//  seen
//                position, from where the original looks for the tip). Never the tip: the original
//                would put its next sentinel at 1. Never what still fences a foreign writer
//                (fence_holds.h), unless the shard is adopted by force. In ascending order. Entry 1
//                is not removed but replaced by the guard, see below.
//  manifests     in ascending order, so that those that are there stay without a gap and at least
//                kManifestsKept remain; only after a complete pass over the log, and only behind
//                the guard. Before each removal the hint is written and read back; writing it also
//                makes the removal before it durable. With a lost or wrong hint the original then
//                finds the newest manifest, or none. Where it finds none it takes the shard for a
//                new one: it claims it anew from version 1 and replays from log entry 1. The guard
//                is a sentinel of an epoch that nobody reaches, at position 1: every such claim,
//                however often it is repeated, ends as "fenced" before a row is taken. No cursor of
//                an existing manifest leads there.
//  generations   folders that the newest manifest does not name: what a merge drained, replaced
//                inputs of a fold, attempts that failed. A number that was passed goes by age. One
//                that was not passed may be a running flush: it goes by age and only after a claim
//                that came later than the folder, because a flush of an older epoch cannot commit.
//
// Age. A store has no modification times, so age is what this process saw: the monotonic time since
// a clean-up first found the folder unnamed, kept in CleanUpState. A restart starts it anew. Log
// entries and manifests need no age.
//
// Leases. Readers in this process hold what they read, and a fold or merge holds the folder that it
// writes until it is committed: `in_use` is asked right before a folder goes. A lease is taken
// before the manifest that names the folder can be replaced (with the shard's view), or at once for
// a folder that is being made. Readers elsewhere are protected by the age.
//
// A crash at any step, or an error, leaves a shard that is whole; the next call goes on. Several
// clean-ups may run at once. Errors of the store end the call; the report counts what was done. A
// shard whose newest manifest cannot be read is left alone (kCorrupt).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "env/clock.h"
#include "object_store/object_store.h"

namespace sarissa::memwal {

inline constexpr uint64_t kManifestsKept = 16;
// Of the guard. Below 2^63, so that every reader can parse it.
inline constexpr Epoch kGuardEpoch{(uint64_t{1} << 63) - 1};

struct CleanUpOptions {
  object_store::ObjectStore* store = nullptr;
  const env::Clock* clock = nullptr;
  std::string table;  // path of the base table
  ShardId shard;
  // How long a folder stays after it was first found unnamed.
  env::Duration retention = std::chrono::minutes(10);
  // The operator vouches that no writer of an older epoch lives: nothing is held for one.
  bool adopt_by_force = false;
  // At most so many removals (a folder is one); 0 = all there is.
  uint64_t max_removals = 0;
  // Last generation that is merged into the base table. For the report only.
  Generation merged;
  // Whether somebody in this process still needs the folder (its name within the shard). Empty:
  // nobody.
  std::function<bool(const std::string& folder)> in_use;
};

// What one process remembers of a shard between calls. Used by one call at a time.
struct CleanUpState {
  struct FirstSeen {
    env::MonotonicTime time;
    Epoch epoch;  // stored epoch when the folder was first found unnamed
  };
  std::map<std::string, FirstSeen> unnamed;
};

struct CleanUpReport {
  uint64_t log_entries_removed = 0;  // the one that the guard replaced, too
  uint64_t log_entries_held = 0;     // at or below the cursor, but they still fence somebody
  uint64_t manifests_removed = 0;
  uint64_t hints_written = 0;
  uint64_t drained_removed = 0;  // generations that are in the base table
  uint64_t orphans_removed = 0;  // other unnamed folders
  uint64_t folders_waiting = 0;  // unnamed, but too young or perhaps a running flush
  uint64_t folders_in_use = 0;
  // The newest manifests are not dense: versions were lost, and none was removed.
  bool manifest_gap = false;
  // False when max_removals ended the call early.
  bool complete = false;

  uint64_t removed() const {
    return log_entries_removed + manifests_removed + drained_removed + orphans_removed;
  }
};

// Blocks. Counts into `report`, which starts fresh, also when it fails.
Status CleanUpShard(const CleanUpOptions& options, CleanUpState& state, CleanUpReport& report);

}  // namespace sarissa::memwal
