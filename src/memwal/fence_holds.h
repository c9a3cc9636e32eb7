// Which log entries at or below the replay cursor must stay, because a writer of an older epoch
// that is not ours may still live. Age does not prove it dead.
//
// What such a writer does. It never reads the epoch again after a put that landed: whatever it puts
// into a free slot, it acknowledges. At or below the replay cursor nobody replays that slot, so the
// ack would be false. It learns that it lost in two ways only: its put collides, or its replay
// meets an entry of a higher epoch. Entries that it puts above the cursor are replayed, and need no
// care.
//
// For a foreign epoch g let fence(g) be the lowest log position with an entry of an epoch above g.
// That entry is the sentinel of the next claimer that wrote at all, because a claimer writes its
// sentinel before anything else. Let floor(g) be the replay cursor in the last manifest of epoch g.
//
//  1. g has opened and appends. Its slots follow each other without a gap from its own sentinel (or
//     from 1) up, and it cannot pass an occupied one: its next slot is fence(g), or one of its own
//     entries that it retries after a lost answer, whose rows are in the log or in a generation
//     already. So fence(g) must stay; a sentinel of a later epoch is above every slot that g can
//     hold, and keeping that one instead does not help.
//  2. g is stalled while it opens. Its sentinel may land in any slot that was free once. Then it
//     replays from above its cursor (floor(g) or higher) to the first missing position, takes that
//     as its next slot, and opens, unless it met an entry of a higher epoch before. So everything
//     in (floor(g), fence(g)] must stay, without a hole: the replay ends at fence(g).
//  3. An entry with rows of epoch g proves that g has opened: case 1 is enough. The entry may go
//     itself; rows of g between floor(g) and fence(g) are removed in ascending order, so that the
//     proof lasts as long as there is something to remove.
//
// When the manifests of g are gone floor(g) is unknown, and all that is still there below fence(g)
// stays. Nothing is lost by that: manifests are removed only after a pass over the log that knew
// them and removed what is at or below floor(g), and floor(g) is never above the cursor.
//
//  4. The sentinel of an opener that slept since before a clean-up may land in a slot below
//     fence(g) that was freed, and would be taken for fence(g) while g's next slot is the one above
//     it (found by the protocol model: 28 steps). So every sentinel above a foreign epoch stays,
//     not the lowest alone. Their number is bounded again once no foreign epoch is left.
//
// Epochs of ours need none: our writers read the epoch again after each landed append. Pure
// functions, thread safe.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/strong_type.h"
#include "memwal/claimed_epochs.h"

namespace sarissa::memwal {

struct LogMark {
  LogPosition position;
  // An entry that cannot be read stays, and counts as nobody's.
  bool readable = false;
  Epoch epoch;
  bool sentinel = false;
};

// Replay cursor in the last manifest of each epoch that is known.
using ReplayFloors = std::map<Epoch, LogPosition>;

// `marks`: all entries that might be removed, ascending by position; they are the lowest of the
// log. Returns the positions among them that must stay.
std::set<LogPosition> HeldEntries(const std::vector<LogMark>& marks,
                                  const std::vector<EpochRange>& foreign,
                                  const ReplayFloors& floors);

}  // namespace sarissa::memwal
