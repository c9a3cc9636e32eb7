#include "lance/file/level_buffer.h"

#include <algorithm>

#include "lance/file/encoding/load.h"

namespace sarissa::lance {

void LevelBuffer::Append(uint64_t count, Levels rep, Levels def, const PageLevels& page) {
  if (has_rep_) rep_.insert(rep_.end(), rep.begin(), rep.end());
  if (def.empty()) {
    if (!def_.empty()) def_.resize(entries_ + count, 0);
  } else {
    def_.resize(entries_ + count, 0);
    uint16_t* to = def_.data() + entries_;
    for (const uint16_t level : def) *to++ = page.Canonical(level);
  }
  entries_ += count;
}

void LevelBuffer::Take(std::vector<uint16_t>* rep, std::vector<uint16_t>* def) {
  *rep = std::move(rep_);
  *def = std::move(def_);
}

uint16_t MaxLevel(Levels levels) {
  uint16_t most = 0;
  for (const uint16_t level : levels) most = std::max(most, level);
  return most;
}

bool AllWithin(Levels levels, uint16_t max) {
  // The bits of all levels together are at least the highest; mostly that settles it.
  const auto* data = reinterpret_cast<const uint8_t*>(levels.data());
  uint64_t bits = 0;
  uint64_t at = 0;
  for (; at + 4 <= levels.size(); at += 4) bits |= Load<uint64_t>(data + 2 * at);
  for (; at < levels.size(); ++at) bits |= levels[at];
  bits |= bits >> 32;
  bits |= bits >> 16;
  return (bits & 0xffff) <= max || MaxLevel(levels) <= max;
}

uint64_t ZeroRun(Levels levels, uint64_t from) {
  const auto* data = reinterpret_cast<const uint8_t*>(levels.data());
  uint64_t at = from;
  while (at + 4 <= levels.size() && Load<uint64_t>(data + 2 * at) == 0) at += 4;
  while (at < levels.size() && levels[at] == 0) ++at;
  return at - from;
}

uint64_t CountSlots(Levels def, uint16_t max_slot_def) {
  uint64_t slots = 0;
  for (const uint16_t level : def) slots += level <= max_slot_def;
  return slots;
}

void SlotValidity(Levels def, uint16_t max_slot_def, std::vector<uint8_t>* out) {
  out->clear();
  out->reserve(def.size());
  for (const uint16_t level : def) {
    if (level <= max_slot_def) out->push_back(level == 0);
  }
}

}  // namespace sarissa::lance
