// Levels of the rows that wait for their page. Owned by a column writer.
#pragma once

#include <cstdint>
#include <vector>

#include "lance/file/rep_def_builder.h"

namespace sarissa::lance {

struct PageLevels {
  std::vector<uint16_t> rep;  // as in LevelBlock
  std::vector<uint16_t> def;
  int64_t rows = 0;
  int64_t num_levels = 0;
  int64_t num_slots = 0;
  int64_t num_null_slots = 0;

  int64_t num_valid() const { return num_slots - num_null_slots; }
  int64_t num_invisible() const { return num_levels - num_slots; }

  void Append(const LevelBlock& block, int64_t block_rows) {
    rep.insert(rep.end(), block.rep.begin(), block.rep.end());
    def.insert(def.end(), block.def.begin(), block.def.end());
    rows += block_rows;
    num_levels += block.num_levels;
    num_slots += block.num_slots;
    num_null_slots += block.num_null_slots;
  }
  void Clear() {
    rep.clear();
    def.clear();
    rows = num_levels = num_slots = num_null_slots = 0;
  }
};

}  // namespace sarissa::lance
