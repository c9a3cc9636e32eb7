#include "lance/file/level_buffer.h"

#include <algorithm>

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
