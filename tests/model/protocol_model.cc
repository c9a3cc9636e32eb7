#include "tests/model/protocol_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "memwal/fence_holds.h"

namespace sarissa::model {
namespace {

constexpr uint8_t Bit(int number) {
  return static_cast<uint8_t>(1U << static_cast<unsigned>(number - 1));
}
constexpr uint8_t Byte(int value) {
  return static_cast<uint8_t>(value);
}
bool Has(uint8_t mask, int number) {
  return (mask & Bit(number)) != 0;
}

bool Present(const State& state, int position) {
  return state.slots[static_cast<size_t>(position)].kind != SlotKind::kEmpty;
}
int Tip(const State& state) {
  for (int position = kPositions; position > 0; --position) {
    if (Present(state, position)) return position;
  }
  return 0;
}
const ManifestVersion& Newest(const State& state) {
  return state.manifests[state.versions];
}

// As the original looks for the newest manifest: from the hint, else from version 1, forward to the
// first gap.
int FindByHint(const State& state) {
  int version = 0;
  if (state.hint > 0 && state.manifests[state.hint].present != 0) {
    version = state.hint;
  } else if (state.manifests[1].present != 0) {
    version = 1;
  }
  while (version > 0 && version < kVersions &&
         state.manifests[static_cast<size_t>(version + 1)].present != 0) {
    ++version;
  }
  return version;
}

}  // namespace

std::string Describe(const Step& step) {
  const std::string who =
      fmt::format("{} {}", step.foreign ? "foreign" : "our",
                  step.epoch == 0 ? std::string("opener") : fmt::format("epoch {}", step.epoch));
  switch (step.action) {
    case Action::kCrash:
      return who + " crashes";
    case Action::kFindManifest:
      return fmt::format("{} finds manifest {}", who, step.number);
    case Action::kPutClaim:
      return fmt::format("{} claims with manifest {}", who, step.number);
    case Action::kWriteHint:
      return fmt::format("{} writes the hint {}", who, step.number);
    case Action::kListLog:
      return fmt::format("{} lists the log, free is {}", who, step.number);
    case Action::kPutSentinel:
      return fmt::format("{} puts its sentinel at {}", who, step.number);
    case Action::kSentinelTaken:
      return fmt::format("{} finds {} taken, tries its sentinel at the next", who, step.number);
    case Action::kReplayEntry:
      return fmt::format("{} replays {}", who, step.number);
    case Action::kReplayEnds:
      return fmt::format("{} ends its replay at {} and is active", who, step.number);
    case Action::kOpenFails:
      return fmt::format("{} fails to open at {}", who, step.number);
    case Action::kPutRow:
      return fmt::format("{} puts row {} at {}", who, step.row, step.number);
    case Action::kPutRowUnanswered:
      return fmt::format("{} puts row {} at {}, without an answer", who, step.row, step.number);
    case Action::kAppendTaken:
      return fmt::format("{} finds {} taken and stops", who, step.number);
    case Action::kRereadEpoch:
      return fmt::format("{} reads the epoch again: its own", who);
    case Action::kFenced:
      return fmt::format("{} finds a higher epoch and stops", who);
    case Action::kAcknowledge:
      return fmt::format("{} acknowledges row {}", who, step.row);
    case Action::kFreeze:
      return fmt::format("{} freezes its memtable up to {}", who, step.number);
    case Action::kReadForFlush:
      return fmt::format("{} reads manifest {} for its flush", who, step.number);
    case Action::kCommitFlush:
      return fmt::format("{} commits its flush as manifest {}", who, step.number);
    case Action::kCommitConflict:
      return fmt::format("{} finds manifest {} taken", who, step.number);
    case Action::kContinueClaim:
      return fmt::format("{} closes cleanly and goes on with its claim", who);
    case Action::kRemoveEntry:
      return fmt::format("{} removes log object {}", who, step.number);
    case Action::kPlanCleanUp:
      return fmt::format("{} reads manifest {} and plans a clean-up", who, step.number);
    case Action::kRemoveManifest:
      return fmt::format("{} removes manifest {}", who, step.number);
  }
  return "?";
}

// The steps of one writer out of one state.
class Protocol::Expansion {
 public:
  Expansion(const Protocol& protocol, const State& state, size_t index,
            std::vector<Successor>& successors)
      : rules_(protocol.rules_),
        bounds_(protocol.bounds_),
        state_(state),
        index_(index),
        writer_(state.writers[index]),
        foreign_(protocol.bounds_.foreign[index]),
        successors_(successors) {}

  void Run() {
    if (writer_.phase != Phase::kIdle) Stop(Action::kCrash, 0);
    switch (writer_.phase) {
      case Phase::kIdle:
        return Find();
      case Phase::kFound:
        return Claim();
      case Phase::kHint:
        return WriteHint([](Writer& writer) { writer.phase = Phase::kClaimed; });
      case Phase::kClaimed:
        return ListLog();
      case Phase::kListed:
        return PutSentinel();
      case Phase::kReplaying:
        return Replay();
      case Phase::kActive:
        Append();
        Flush();
        ContinueClaim();
        if (!foreign_) CleanUp();
        return;
    }
  }

 private:
  struct Edit {
    State& state;
    Writer& writer;
    const char*& violation;
  };

  // Adds the successor that `edit` makes.
  template <typename Change>
  void Add(Action action, int number, Change change, int row = 0) {
    Successor& next = successors_.emplace_back();
    next.state = state_;
    next.step = {.action = action,
                 .foreign = foreign_,
                 .epoch = writer_.epoch,
                 .number = Byte(number),
                 .row = Byte(row)};
    Edit edit{next.state, next.state.writers[index_], next.violation};
    change(edit);
    SortWriters(next.state);
  }

  // Writers of one kind are alike: which of them is where makes no difference.
  void SortWriters(State& state) const {
    const auto less = [](const Writer& a, const Writer& b) {
      return std::memcmp(&a, &b, sizeof(Writer)) < 0;
    };
    const auto first_foreign = std::find(bounds_.foreign.begin(), bounds_.foreign.end(), true);
    const auto split = state.writers.begin() + (first_foreign - bounds_.foreign.begin());
    const auto end = state.writers.begin() + static_cast<std::ptrdiff_t>(bounds_.foreign.size());
    std::sort(state.writers.begin(), split, less);
    std::sort(split, end, less);
  }

  void Stop(Action action, int number) {
    Add(action, number, [](Edit& edit) { edit.writer = Writer(); });
  }

  // Puts a manifest version if it is absent. False: it is taken.
  static bool PutManifest(Edit& edit, int version, ManifestVersion content) {
    ManifestVersion& place = edit.state.manifests[static_cast<size_t>(version)];
    if (place.present != 0) return false;
    if (version <= edit.state.versions) {
      edit.violation = "C7: a manifest version is written again after it was removed";
      return true;
    }
    if (content.epoch < Newest(edit.state).epoch)
      edit.violation = "C7: the epoch of the manifests goes back";
    content.present = 1;
    place = content;
    edit.state.versions = Byte(version);
    return true;
  }

  void Find() {
    if (state_.claims >= bounds_.claims) return;
    if (!rules_.sentinel_after_claim && writer_.position == 0) return SentinelBeforeClaim();
    const int found = foreign_ ? FindByHint(state_) : state_.versions;
    Add(Action::kFindManifest, found, [&](Edit& edit) {
      edit.writer.phase = Phase::kFound;
      edit.writer.version = Byte(found);
    });
  }

  // The broken order: the sentinel of the epoch that it means to claim goes first.
  void SentinelBeforeClaim() {
    const int free = Tip(state_) + 1;
    if (free > kPositions) return;
    Add(Action::kPutSentinel, free, [&](Edit& edit) {
      edit.writer.position = Byte(free);
      edit.state.slots[static_cast<size_t>(free)] = {SlotKind::kSentinel,
                                                     Byte(Newest(state_).epoch + 1), 0,
                                                     state_.slots[static_cast<size_t>(free)].ever};
    });
  }

  void Claim() {
    const int version = writer_.version + 1;
    if (version > kVersions) return Stop(Action::kOpenFails, version);
    const ManifestVersion& base = state_.manifests[writer_.version];
    const uint8_t target = Byte(base.epoch + 1);
    if (state_.manifests[static_cast<size_t>(version)].present != 0) {
      if (Newest(state_).epoch >= target) return Stop(Action::kOpenFails, version);
      return Add(Action::kFindManifest, state_.versions,
                 [&](Edit& edit) { edit.writer.version = state_.versions; });
    }
    Add(Action::kPutClaim, version, [&](Edit& edit) {
      ManifestVersion content = base;
      content.epoch = target;
      // The original drops the record when it writes a manifest.
      content.ours = foreign_ ? Byte(0) : Byte(base.ours | Bit(target));
      PutManifest(edit, version, content);
      ++edit.state.claims;
      edit.writer.version = Byte(version);
      edit.writer.epoch = target;
      edit.writer.acked_before = state_.acked;
      edit.writer.no_sentinel = target == 1 || !rules_.sentinel_after_claim || !rules_.sentinel;
      edit.writer.position = 0;
      edit.writer.phase = Phase::kClaimed;
      HintFollows(edit, [](Writer& writer) { writer.phase = Phase::kHint; });
    });
  }

  template <typename Owe>
  void HintFollows(Edit& edit, Owe owe) const {
    if (rules_.prune_manifests) owe(edit.writer);  // else nobody needs the hint
  }
  template <typename Done>
  void WriteHint(Done done) {
    Add(Action::kWriteHint, writer_.version, [&](Edit& edit) {
      edit.state.hint = writer_.version;
      done(edit.writer);
    });
  }

  void ListLog() {
    const int replay_after = state_.manifests[writer_.version].replay_after;
    const int tip = Tip(state_);
    int free = std::max(tip, replay_after) + 1;
    if (!foreign_) {
      for (int position = replay_after + 1; position <= tip; ++position) {
        if (!Present(state_, position)) return Stop(Action::kOpenFails, position);
      }
    } else if (replay_after > 0 && Present(state_, replay_after)) {
      free = replay_after;
      while (free <= kPositions && Present(state_, free)) ++free;
    } else {
      free = tip + 1;
    }
    if (free > kPositions) return Stop(Action::kOpenFails, free);
    Add(Action::kListLog, free, [&](Edit& edit) {
      edit.writer.position = Byte(free);
      edit.writer.end = Byte(free);
      const bool sentinel_now = writer_.no_sentinel == 0 && rules_.sentinel_before_replay;
      if (sentinel_now) {
        edit.writer.phase = Phase::kListed;
      } else {
        StartReplay(edit.writer);
      }
    });
  }

  void StartReplay(Writer& writer) const {
    writer.phase = Phase::kReplaying;
    writer.position = Byte(state_.manifests[writer.version].replay_after + 1);
  }

  void PutSentinel() {
    const int position = writer_.position;
    if (position > kPositions) return Stop(Action::kOpenFails, position);
    if (Present(state_, position)) {
      return Add(Action::kSentinelTaken, position,
                 [&](Edit& edit) { edit.writer.position = Byte(position + 1); });
    }
    Add(Action::kPutSentinel, position, [&](Edit& edit) {
      Slot& slot = edit.state.slots[static_cast<size_t>(position)];
      slot = {SlotKind::kSentinel, writer_.epoch, 0, slot.ever};
      edit.writer.end = Byte(position);
      if (rules_.sentinel_before_replay) {
        StartReplay(edit.writer);
      } else {
        BecomeActive(edit, position + 1);
      }
    });
  }

  void Replay() {
    const int position = writer_.position;
    // The original reads on to the first missing position, past its own sentinel.
    if (position > kPositions || (!foreign_ && position >= writer_.end)) return EndReplay();
    const Slot& slot = state_.slots[static_cast<size_t>(position)];
    if (slot.kind == SlotKind::kEmpty) {
      if (foreign_) return EndReplay();
      if (rules_.missing_entry_ends_open) return Stop(Action::kOpenFails, position);
    } else if (slot.epoch > writer_.epoch && rules_.higher_epoch_ends_open) {
      return Stop(Action::kFenced, position);
    }
    Add(Action::kReplayEntry, position, [&](Edit& edit) {
      edit.writer.position = Byte(position + 1);
      if (slot.kind != SlotKind::kRow) return;
      edit.writer.memtable |= Bit(slot.row);
      edit.writer.last = Byte(position);
    });
  }

  void EndReplay() {
    if (!rules_.sentinel_before_replay && writer_.no_sentinel == 0) {
      return Add(Action::kReplayEnds, writer_.end, [&](Edit& edit) {
        edit.writer.phase = Phase::kListed;
        edit.writer.position = writer_.end;
      });
    }
    if (!foreign_ && rules_.reread_after_replay && Newest(state_).epoch != writer_.epoch)
      return Stop(Action::kFenced, writer_.position);
    int next = writer_.position;
    if (!foreign_) next = writer_.no_sentinel == 0 ? writer_.end + 1 : writer_.end;
    Add(Action::kReplayEnds, next, [&](Edit& edit) { BecomeActive(edit, next); });
  }

  void BecomeActive(Edit& edit, int next) const {
    Writer& writer = edit.writer;
    // What a cleaned log does not show is still never used again.
    const int cursor = state_.manifests[writer.version].replay_after;
    writer.phase = Phase::kActive;
    writer.position = Byte(std::max(next, cursor + 1));
    writer.end = 0;
    writer.no_sentinel = 0;
    const uint8_t shown = writer.memtable | state_.manifests[writer.version].flushed;
    if ((writer.acked_before & ~shown) != 0) {
      edit.violation = "C1: a writer opened without a row that was acknowledged before its claim";
    }
    writer.acked_before = 0;
  }

  void Append() {
    switch (writer_.append) {
      case AppendPhase::kNone:
        if (state_.rows < bounds_.rows) Put(state_.rows + 1, /*again=*/false);
        return;
      case AppendPhase::kUnanswered:
        return Put(writer_.row, /*again=*/true);
      case AppendPhase::kLanded:
        if (foreign_ || !rules_.reread_before_ack) return Acknowledge();
        if (Newest(state_).epoch != writer_.epoch) return Stop(Action::kFenced, 0);
        return Add(Action::kRereadEpoch, 0,
                   [](Edit& edit) { edit.writer.append = AppendPhase::kChecked; });
      case AppendPhase::kChecked:
        return Acknowledge();
    }
  }

  void Put(int row, bool again) {
    const int position = writer_.position;
    if (position > kPositions) return;
    const Slot& slot = state_.slots[static_cast<size_t>(position)];
    const bool own = again && slot.kind == SlotKind::kRow && slot.row == row;
    // The original does not recognise its own entry.
    if (slot.kind != SlotKind::kEmpty && (!own || foreign_))
      return Stop(Action::kAppendTaken, position);
    const auto land = [&](Edit& edit) {
      Slot& place = edit.state.slots[static_cast<size_t>(position)];
      if (place.ever != 0 && place.ever != row)
        edit.violation = "C7: a log position has rows of two authors";
      place = {SlotKind::kRow, writer_.epoch, Byte(row), Byte(row)};
      edit.state.rows = std::max(edit.state.rows, Byte(row));
      edit.writer.row = Byte(row);
    };
    const auto add = [&](Action action, AppendPhase next, bool lands) {
      Add(
          action, position,
          [&](Edit& edit) {
            if (lands) land(edit);
            edit.state.rows = std::max(edit.state.rows, Byte(row));
            edit.writer.row = Byte(row);
            edit.writer.append = next;
          },
          row);
    };
    add(Action::kPutRow, AppendPhase::kLanded, true);
    if (!bounds_.lost_answers || again) return;
    add(Action::kPutRowUnanswered, AppendPhase::kUnanswered, true);
    add(Action::kPutRowUnanswered, AppendPhase::kUnanswered, false);
  }

  void Acknowledge() {
    Add(
        Action::kAcknowledge, writer_.position,
        [&](Edit& edit) {
          edit.state.acked |= Bit(writer_.row);
          edit.writer.memtable |= Bit(writer_.row);
          edit.writer.last = writer_.position;
          edit.writer.position = Byte(writer_.position + 1);
          edit.writer.row = 0;
          edit.writer.append = AppendPhase::kNone;
        },
        writer_.row);
  }

  void Flush() {
    switch (writer_.flush) {
      case FlushPhase::kNone:
        if (writer_.memtable == 0 || writer_.append != AppendPhase::kNone) return;
        return Add(Action::kFreeze, writer_.last, [&](Edit& edit) {
          edit.writer.frozen = std::exchange(edit.writer.memtable, Byte(0));
          edit.writer.covered = std::exchange(edit.writer.last, Byte(0));
          edit.writer.flush = FlushPhase::kFrozen;
        });
      case FlushPhase::kFrozen: {
        const int found = foreign_ && rules_.prune_manifests
                              ? std::max<int>(FindByHint(state_), writer_.version)
                              : state_.versions;
        const ManifestVersion& newest = state_.manifests[static_cast<size_t>(found)];
        if (rules_.flush_checks_epoch && newest.epoch != writer_.epoch)
          return Stop(Action::kFenced, found);
        return Add(Action::kReadForFlush, found, [&](Edit& edit) {
          edit.writer.found = Byte(found);
          edit.writer.flush = FlushPhase::kRead;
        });
      }
      case FlushPhase::kRead:
        return Commit();
      case FlushPhase::kHint:
        return WriteHint([](Writer& writer) { writer.flush = FlushPhase::kNone; });
    }
  }

  void Commit() {
    const int version = writer_.found + 1;
    if (version > kVersions) return;
    if (state_.manifests[static_cast<size_t>(version)].present != 0) {
      return Add(Action::kCommitConflict, version, [](Edit& edit) {
        edit.writer.found = 0;
        edit.writer.flush = FlushPhase::kFrozen;
      });
    }
    Add(Action::kCommitFlush, version, [&](Edit& edit) {
      const ManifestVersion& base = state_.manifests[writer_.found];
      ManifestVersion content = base;
      content.epoch = writer_.epoch;
      content.replay_after = std::max(base.replay_after, writer_.covered);
      content.flushed |= writer_.frozen;
      if (foreign_) content.ours = 0;
      PutManifest(edit, version, content);
      if ((base.flushed & writer_.frozen) != 0) edit.violation = "C3: a row is in two generations";
      for (int position = base.replay_after + 1; position <= content.replay_after; ++position) {
        const Slot& slot = state_.slots[static_cast<size_t>(position)];
        if (slot.kind == SlotKind::kRow && !Has(content.flushed, slot.row))
          edit.violation = "C8: the replay cursor passes a row that is in no generation";
      }
      edit.writer.version = Byte(version);
      edit.writer.found = 0;
      edit.writer.frozen = 0;
      edit.writer.covered = 0;
      edit.writer.flush = FlushPhase::kNone;
      HintFollows(edit, [](Writer& writer) { writer.flush = FlushPhase::kHint; });
    });
  }

  // A clean close and a reopen in the same process: no new epoch and no sentinel while the manifest
  // shows ours.
  void ContinueClaim() {
    const bool clean = writer_.append == AppendPhase::kNone && writer_.flush == FlushPhase::kNone &&
                       writer_.memtable == 0 && writer_.clean == 0 && writer_.prune_below == 0;
    if (foreign_ || !clean || Newest(state_).epoch != writer_.epoch) return;
    Add(Action::kContinueClaim, state_.versions, [&](Edit& edit) {
      edit.writer = Writer();
      edit.writer.phase = Phase::kClaimed;
      edit.writer.epoch = writer_.epoch;
      edit.writer.version = state_.versions;
      edit.writer.no_sentinel = 1;
      edit.writer.acked_before = state_.acked;
    });
  }

  // --- clean-up, as the newest manifest is at its start
  void CleanUp() {
    if (writer_.clean == 0 && writer_.prune_below == 0) return PlanCleanUp();
    if (writer_.clean == 0) return RemoveManifest();
    int position = 1;
    while (!Has(writer_.clean, position)) ++position;
    Add(Action::kRemoveEntry, position, [&](Edit& edit) {
      Slot& place = edit.state.slots[static_cast<size_t>(position)];
      place = {SlotKind::kEmpty, 0, 0, place.ever};
      edit.writer.clean = Byte(writer_.clean & ~Bit(position));
    });
  }

  void PlanCleanUp() {
    const uint8_t clean = bounds_.clean_up ? RemovableEntries() : Byte(0);
    const uint8_t prune_below = rules_.prune_manifests ? RemovableManifests() : Byte(0);
    if (clean == 0 && prune_below == 0) return;
    Add(Action::kPlanCleanUp, state_.versions, [&](Edit& edit) {
      edit.writer.clean = clean;
      edit.writer.prune_below = prune_below;
    });
  }

  uint8_t RemovableEntries() const {
    const ManifestVersion& newest = Newest(state_);
    int cursor = newest.replay_after;
    if (!rules_.clean_by_committed_cursor) cursor = std::max<int>(cursor, writer_.covered);
    const int end = std::min(cursor, Tip(state_) - 1);
    uint8_t removable = 0;
    int newest_sentinel = 0;
    for (int position = 1; position <= kPositions; ++position) {
      if (state_.slots[static_cast<size_t>(position)].kind == SlotKind::kSentinel)
        newest_sentinel = position;
      if (position <= end && Present(state_, position)) removable |= Bit(position);
    }
    if (removable == 0) return 0;
    if (rules_.held == Rules::Held::kNewestSentinel) {
      return newest_sentinel == 0 ? removable : Byte(removable & ~Bit(newest_sentinel));
    }
    for (const LogPosition held : HeldEntries(newest, removable))
      removable &= Byte(~Bit(static_cast<int>(held.value())));
    return removable;
  }

  std::set<LogPosition> HeldEntries(const ManifestVersion& newest, uint8_t removable) const {
    std::vector<memwal::EpochRange> foreign;
    for (uint64_t epoch = 1; epoch < newest.epoch; ++epoch) {
      if (!Has(newest.ours, static_cast<int>(epoch))) foreign.push_back({epoch, epoch});
    }
    if (foreign.empty()) return {};
    std::vector<memwal::LogMark> marks;
    for (uint64_t position = 1; position <= kPositions; ++position) {
      const Slot& slot = state_.slots[position];
      if (!Has(removable, static_cast<int>(position))) continue;
      marks.push_back(
          {LogPosition(position), true, Epoch(slot.epoch), slot.kind == SlotKind::kSentinel});
    }
    memwal::ReplayFloors floors;
    for (size_t version = state_.versions; version > 0; --version) {
      const ManifestVersion& manifest = state_.manifests[version];
      if (manifest.present == 0) break;
      floors.emplace(Epoch(manifest.epoch), LogPosition(manifest.replay_after));
    }
    // Floors above everything: nothing below a fence is held.
    if (rules_.held == Rules::Held::kFences) {
      for (uint64_t epoch = 1; epoch <= newest.epoch; ++epoch)
        floors[Epoch(epoch)] = LogPosition(kPositions);
    }
    return memwal::HeldEntries(marks, foreign, floors);
  }

  uint8_t RemovableManifests() const {
    constexpr int kKeep = 2;
    const int stay = state_.versions - kKeep + 1;
    if (stay < 2 || LowestPresent() >= stay) return 0;
    if (rules_.prune_checks_hint && state_.hint < stay) return 0;
    if (rules_.nobody_sleeps_through_pruning && SomebodyFollowsBelow(stay)) return 0;
    if (rules_.nobody_sleeps_before_hint && SomebodyOwesHintBelow(stay)) return 0;
    return Byte(stay);
  }

  void RemoveManifest() {
    const int lowest = LowestPresent();
    Add(Action::kRemoveManifest, lowest, [&](Edit& edit) {
      // Another clean-up may have been quicker.
      if (lowest < writer_.prune_below)
        edit.state.manifests[static_cast<size_t>(lowest)].present = 0;
      if (lowest + 1 >= writer_.prune_below) edit.writer.prune_below = 0;
    });
  }

  // Somebody read a manifest and will put its successor, which is about to be removed.
  bool SomebodyFollowsBelow(int stay) const {
    for (const Writer& writer : state_.writers) {
      if (writer.phase == Phase::kFound && writer.version + 1 < stay) return true;
      if (writer.flush == FlushPhase::kRead && writer.found + 1 < stay) return true;
    }
    return false;
  }
  bool SomebodyOwesHintBelow(int stay) const {
    for (const Writer& writer : state_.writers) {
      const bool owes = writer.phase == Phase::kHint || writer.flush == FlushPhase::kHint;
      if (owes && writer.version < stay) return true;
    }
    return false;
  }
  int LowestPresent() const {
    int version = 1;
    while (version <= kVersions && state_.manifests[static_cast<size_t>(version)].present == 0)
      ++version;
    return version;
  }

  const Rules& rules_;
  const Bounds& bounds_;
  const State& state_;
  const size_t index_;
  const Writer& writer_;
  const bool foreign_;
  std::vector<Successor>& successors_;
};

void Protocol::Expand(const State& state, std::vector<Successor>& successors) const {
  for (size_t index = 0; index < bounds_.foreign.size(); ++index) {
    Expansion(*this, state, index, successors).Run();
  }
}

const char* Protocol::Check(const State& state) const {
  const ManifestVersion& newest = Newest(state);
  uint8_t replayable = 0;
  bool hole = false;
  uint8_t epoch = 0;
  for (int position = newest.replay_after + 1; position <= kPositions; ++position) {
    const Slot& slot = state.slots[static_cast<size_t>(position)];
    if (slot.kind == SlotKind::kEmpty) hole = true;
    if (slot.kind != SlotKind::kRow || hole) continue;
    replayable |= Bit(slot.row);
    if (slot.epoch < epoch) return "C7: the epochs of the rows in the log go back";
    epoch = slot.epoch;
  }
  if ((state.acked & ~(newest.flushed | replayable)) != 0) {
    return "C1: an acknowledged row is in no generation and no replay reads it";
  }
  if ((newest.flushed & replayable) != 0) return "C3: a row of a generation is replayed again";
  for (const Writer& writer : state.writers) {
    const bool owner = writer.phase == Phase::kActive && writer.epoch == newest.epoch;
    if (!owner) continue;
    const uint8_t shown = newest.flushed | writer.memtable | writer.frozen;
    if ((state.acked & ~shown) != 0)
      return "M9: somebody acknowledged a row that the owner does not have";
  }
  return nullptr;
}

}  // namespace sarissa::model
