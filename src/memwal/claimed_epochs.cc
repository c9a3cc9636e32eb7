#include "memwal/claimed_epochs.h"

#include <algorithm>

namespace sarissa::memwal {

std::vector<EpochRange> ClaimedEpochs(const ShardManifest& stored) {
  const auto& bounds = stored.sarissa_claimed_epochs();
  if (!stored.has_sarissa_checksum() || bounds.size() % 2 != 0) return {};
  std::vector<EpochRange> claimed;
  uint64_t above = 0;
  for (int i = 0; i < bounds.size(); i += 2) {
    const EpochRange range{bounds[i], bounds[i + 1]};
    if (range.first <= above || range.last < range.first) return {};
    above = range.last;
    claimed.push_back(range);
  }
  return claimed;
}

std::vector<EpochRange> ForeignEpochs(const ShardManifest& stored) {
  std::vector<EpochRange> foreign;
  const uint64_t end = stored.writer_epoch();
  uint64_t next = 1;
  for (const EpochRange& ours : ClaimedEpochs(stored)) {
    if (next >= end) break;
    if (ours.first > next) foreign.push_back({next, std::min(ours.first, end) - 1});
    next = ours.last + 1;
    // The last range may end at the highest number there is.
    if (next == 0) return foreign;
  }
  if (next < end) foreign.push_back({next, end - 1});
  return foreign;
}

void RecordClaimedEpoch(ShardManifest& claim) {
  std::vector<EpochRange> claimed = ClaimedEpochs(claim);
  const uint64_t epoch = claim.writer_epoch();
  claim.clear_sarissa_claimed_epochs();
  if (!claimed.empty() && claimed.back().last >= epoch) claimed.clear();
  if (!claimed.empty() && claimed.back().last + 1 == epoch) {
    claimed.back().last = epoch;
  } else {
    claimed.push_back({epoch, epoch});
  }
  for (const EpochRange& range : claimed) {
    claim.add_sarissa_claimed_epochs(range.first);
    claim.add_sarissa_claimed_epochs(range.last);
  }
}

}  // namespace sarissa::memwal
