// Repetition and definition levels of one leaf over all pages that were read, in the canonical
// numbering of LeafShape.
//
// Owned by one read; one thread. Nothing is stored while nothing can be null: definitions appear
// with the first page that has any, repetitions only for leaves below a list.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lance/file/leaf_shape.h"

namespace sarissa::lance {

using Levels = std::span<const uint16_t>;

class LevelBuffer {
 public:
  explicit LevelBuffer(const LeafShape& shape) : has_rep_(shape.max_rep > 0) {}

  // `count` entries. `rep` is empty unless there are lists; `def` is empty when all are valid. Both
  // are the page's own numbers, already checked against its maxima.
  void Append(uint64_t count, Levels rep, Levels def, const PageLevels& page);

  uint64_t entries() const { return entries_; }
  // Moves the levels out; `def` is empty when all are 0.
  void Take(std::vector<uint16_t>* rep, std::vector<uint16_t>* def);

 private:
  bool has_rep_;
  uint64_t entries_ = 0;
  std::vector<uint16_t> rep_;
  std::vector<uint16_t> def_;
};

// The highest level; 0 for none.
uint16_t MaxLevel(Levels levels);
// MaxLevel(levels) <= max, mostly in less time.
bool AllWithin(Levels levels, uint16_t max);
// How many levels from `from` on are 0: most are, so they are passed over in words.
uint64_t ZeroRun(Levels levels, uint64_t from);
// Entries that have a value slot.
uint64_t CountSlots(Levels def, uint16_t max_slot_def);
// One byte per slot: 1 where the value is valid.
void SlotValidity(Levels def, uint16_t max_slot_def, std::vector<uint8_t>* out);

}  // namespace sarissa::lance
