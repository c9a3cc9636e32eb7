// A model of the shard protocol: claim, sentinel, replay, append, flush, clean-up, crash.
//
// A state is everything that the store holds and every writer knows; a step is one call to the
// store, an acknowledgement, or a crash. Whatever order the calls of several writers may come in,
// some path of steps has it. Bounded: few writers, claims, rows and log positions.
//
// "Ours" re-reads the epoch after each landed append and before the acknowledgement, refuses to
// replay around a hole, and cleans up. "Foreign" is the original: it acknowledges what landed,
// replays up to the first missing position, appends there, and cleans nothing.
//
// Which log entries a clean-up holds back is decided by the product's own code (fence_holds.h).
//
// `Rules` holds what the protocol stands on, each a switch, so that a test can show which attack
// follows when one of them is missing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sarissa::model {

inline constexpr int kWriters = 3;
inline constexpr int kPositions = 7;
inline constexpr int kVersions = 8;

struct Rules {
  bool sentinel = true;
  bool sentinel_after_claim = true;    // false: sentinel, then claim
  bool sentinel_before_replay = true;  // false: replay, then sentinel
  bool reread_before_ack = true;
  bool flush_checks_epoch = true;
  // Clean-up goes by the cursor of the newest manifest; false: of a flush that is under way.
  bool clean_by_committed_cursor = true;
  // What still fences a foreign epoch stays.
  enum class Held {
    kAll,             // as in the product
    kFences,          // the entries that fence, not what a stalled opener replays below them
    kNewestSentinel,  // only the newest sentinel
  };
  Held held = Held::kAll;
  bool missing_entry_ends_open = true;
  bool higher_epoch_ends_open = true;
  // An opener reads the epoch once more after its replay: its sentinel may lie where a newer owner
  // has cleaned up already.
  bool reread_after_replay = true;
  // Manifests below the newest two that a writer knows are removed; off keeps all.
  bool prune_manifests = false;
  bool prune_checks_hint = true;  // the hint is read back and is not below what stays
  // Put-if-absent guards a version only while its object is there. These two are assumptions about
  // the world rather than rules: no writer sleeps, between reading a manifest and putting its
  // successor, through the removal of that successor, and none sleeps before its hint write.
  bool nobody_sleeps_through_pruning = true;
  bool nobody_sleeps_before_hint = true;
};

struct Bounds {
  std::vector<bool> foreign;  // per writer, ours first; at most kWriters
  int claims = 3;             // at most 7
  int rows = 3;               // at most 7
  bool lost_answers = false;  // an append may land, or not, without an answer
  bool clean_up = true;
};

enum class Phase : uint8_t {
  kIdle,
  kFound,      // read the newest manifest, about to claim
  kHint,       // the claim landed, the hint follows
  kClaimed,    // about to list the log
  kListed,     // about to put the sentinel at `position`
  kReplaying,  // reads `position`, up to `end`
  kActive,
};
enum class AppendPhase : uint8_t { kNone, kUnanswered, kLanded, kChecked };
enum class FlushPhase : uint8_t { kNone, kFrozen, kRead, kHint };
enum class SlotKind : uint8_t { kEmpty, kSentinel, kRow };

struct Slot {
  SlotKind kind = SlotKind::kEmpty;
  uint8_t epoch = 0;
  uint8_t row = 0;   // from 1
  uint8_t ever = 0;  // the row that was here first, also after its removal
};

struct ManifestVersion {
  uint8_t epoch = 0;
  uint8_t replay_after = 0;
  uint8_t flushed = 0;  // rows in generations, bit row - 1
  uint8_t ours = 0;     // epochs that are recorded as ours, bit epoch - 1
  uint8_t present = 0;
};

struct Writer {
  Phase phase = Phase::kIdle;
  AppendPhase append = AppendPhase::kNone;
  FlushPhase flush = FlushPhase::kNone;
  uint8_t epoch = 0;
  uint8_t version = 0;   // the manifest that it knows
  uint8_t found = 0;     // the manifest that a running flush will follow
  uint8_t position = 0;  // of the sentinel, the replay, or the next append
  uint8_t end = 0;       // of the replay
  uint8_t no_sentinel = 0;
  uint8_t row = 0;  // in flight
  uint8_t memtable = 0;
  uint8_t last = 0;  // position of the memtable's last row
  uint8_t frozen = 0;
  uint8_t covered = 0;
  uint8_t acked_before = 0;  // rows that were acknowledged when it claimed
  uint8_t clean = 0;         // log positions that a clean-up will remove, bit position - 1
  uint8_t prune_below = 0;   // manifests that it will remove then
};

struct State {
  std::array<Slot, kPositions + 1> slots;                // [0] is unused
  std::array<ManifestVersion, kVersions + 1> manifests;  // [0] is unused
  std::array<Writer, kWriters> writers;
  uint8_t acked = 0;
  uint8_t rows = 0;
  uint8_t claims = 0;
  uint8_t versions = 0;  // the highest that ever landed
  uint8_t hint = 0;
  std::array<uint8_t, 3> unused{};
};
inline constexpr size_t kStateWords = sizeof(State) / sizeof(uint64_t);
static_assert(sizeof(State) % sizeof(uint64_t) == 0);

enum class Action : uint8_t {
  kCrash,
  kFindManifest,
  kPutClaim,
  kWriteHint,
  kListLog,
  kPutSentinel,
  kSentinelTaken,
  kReplayEntry,
  kReplayEnds,
  kOpenFails,
  kPutRow,
  kPutRowUnanswered,
  kAppendTaken,
  kRereadEpoch,
  kFenced,
  kAcknowledge,
  kFreeze,
  kReadForFlush,
  kCommitFlush,
  kCommitConflict,
  kContinueClaim,
  kPlanCleanUp,
  kRemoveEntry,
  kRemoveManifest,
};

struct Step {
  Action action = Action::kCrash;
  bool foreign = false;
  uint8_t epoch = 0;   // of the writer; 0 before its claim
  uint8_t number = 0;  // position or version
  uint8_t row = 0;
};
std::string Describe(const Step& step);

struct Successor {
  State state;
  Step step;
  const char* violation = nullptr;  // what the step itself breaks
};

class Protocol {
 public:
  Protocol(Rules rules, Bounds bounds) : rules_(rules), bounds_(std::move(bounds)) {}

  // Appends every state that one step leads to.
  void Expand(const State& state, std::vector<Successor>& successors) const;
  // What is wrong in `state`, or null.
  const char* Check(const State& state) const;

 private:
  class Expansion;

  const Rules rules_;
  const Bounds bounds_;
};

}  // namespace sarissa::model
