// The item loop of full-zip pages: per item a control word, `repetition << bits_def | definition`,
// then what the values put behind it.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "lance/file/column_path.h"
#include "lance/file/container_writer.h"
#include "lance/file/page_levels.h"

namespace sarissa::lance {

struct ControlWordShape {
  explicit ControlWordShape(const ColumnPath& path)
      : bits_rep(static_cast<uint32_t>(std::bit_width(path.max_rep))),
        bits_def(static_cast<uint32_t>(std::bit_width(path.max_def))) {
    const uint32_t bits = bits_rep + bits_def;
    bytes = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
  }
  uint32_t bits_rep;
  uint32_t bits_def;
  uint32_t bytes;
};

// Calls append_value(slot, is_valid) for every visible item.
template <typename AppendValue>
Status WriteZippedItems(const ColumnPath& path, const PageLevels& levels, ContainerWriter* out,
                        std::vector<uint64_t>* row_starts, AppendValue append_value) {
  const ControlWordShape shape(path);
  const uint64_t start = out->position();
  int64_t slot = 0;
  for (int64_t i = 0; i < levels.num_levels; ++i) {
    const uint32_t rep = levels.rep.empty() ? 0 : levels.rep[static_cast<size_t>(i)];
    const uint32_t def = levels.def.empty() ? 0 : levels.def[static_cast<size_t>(i)];
    if (rep == path.max_rep) row_starts->push_back(out->position() - start);
    const uint32_t word = rep << shape.bits_def | def;
    ARROW_RETURN_NOT_OK(out->Append(&word, shape.bytes));
    if (def <= path.max_visible_def) ARROW_RETURN_NOT_OK(append_value(slot++, def == 0));
  }
  row_starts->push_back(out->position() - start);
  return Status::OK();
}

}  // namespace sarissa::lance
