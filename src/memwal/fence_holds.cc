#include "memwal/fence_holds.h"

#include <algorithm>
#include <limits>

namespace sarissa::memwal {
namespace {

// Nothing may be removed below the fence when the floor is unknown.
LogPosition FloorOf(uint64_t epoch, const ReplayFloors& floors) {
  // An epoch without a manifest of its own was claimed on top of the last lower one.
  const auto above = floors.upper_bound(Epoch(epoch));
  return above == floors.begin() ? LogPosition(0) : std::prev(above)->second;
}

// Holds what the epochs of `range` need; all of them have their fence at marks[fence], or above all
// marks.
void HoldFor(const EpochRange& range, const std::vector<LogMark>& marks, size_t fence,
             const ReplayFloors& floors, std::set<LogPosition>& held) {
  const LogPosition floor = FloorOf(range.first, floors);
  std::set<uint64_t> opened;
  for (size_t i = 0; i < fence; ++i) {
    const LogMark& mark = marks[i];
    const uint64_t epoch = mark.epoch.value();
    const bool rows = mark.readable && !mark.sentinel && mark.position > floor;
    if (rows && epoch >= range.first && epoch <= range.last) opened.insert(epoch);
  }
  if (opened.size() < range.last - range.first + 1) {
    for (size_t i = 0; i < fence; ++i) {
      if (marks[i].position > floor) held.insert(marks[i].position);
    }
  }
  if (fence < marks.size()) held.insert(marks[fence].position);
}

}  // namespace

std::set<LogPosition> HeldEntries(const std::vector<LogMark>& marks,
                                  const std::vector<EpochRange>& foreign,
                                  const ReplayFloors& floors) {
  std::set<LogPosition> held;
  if (foreign.empty()) return held;
  const auto hold_group = [&](uint64_t first, uint64_t last, size_t fence) {
    for (const EpochRange& range : foreign) {
      const EpochRange part{std::max(range.first, first), std::min(range.last, last)};
      if (part.first <= part.last) HoldFor(part, marks, fence, floors, held);
    }
  };
  // Epochs from the highest one seen so far up to below the next higher one share a fence.
  uint64_t highest = 0;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (!marks[i].readable) {
      held.insert(marks[i].position);
    } else if (marks[i].epoch.value() > highest) {
      hold_group(highest, marks[i].epoch.value() - 1, i);
      highest = marks[i].epoch.value();
    }
  }
  hold_group(highest, std::numeric_limits<uint64_t>::max(), marks.size());
  // Case 4 of the header.
  const auto lowest =
      std::min_element(foreign.begin(), foreign.end(),
                       [](const EpochRange& a, const EpochRange& b) { return a.first < b.first; });
  for (const LogMark& mark : marks) {
    if (mark.sentinel && mark.epoch.value() > lowest->first) held.insert(mark.position);
  }
  return held;
}

}  // namespace sarissa::memwal
