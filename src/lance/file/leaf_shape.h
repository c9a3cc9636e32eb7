// What a reader has to know about a leaf: how its values lie in memory, and which layers stand
// between them and the rows.
//
// Levels of pages that declare differing layers meet in one canonical numbering: every item layer
// has one level (null), every list layer two (null, then empty), from the inside out. Immutable,
// thread safe.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "lance/file/encoding/decoder.h"

namespace sarissa::lance {

// How the values of a leaf lie in memory.
struct ValueShape {
  enum class Kind { kNull, kFixed, kVariable };
  Kind kind = Kind::kFixed;
  uint64_t bits_per_item = 0;
  uint64_t items_per_value = 1;
  bool large_offsets = false;

  uint64_t value_bits() const { return bits_per_item * items_per_value; }
};

struct LevelLayer {
  bool is_list = false;
  uint16_t null_level = 0;
  uint16_t empty_level = 0;  // lists only
  uint16_t repetition = 0;   // lists only: 1 for the innermost
  // Entries above this definition have no slot in the layer: what is null or empty further out.
  uint16_t max_slot_def = 0;
};

struct LeafShape {
  std::shared_ptr<arrow::DataType> type;
  bool dictionary = false;  // `values` then is the shape of the dictionary's values
  ValueShape values;
  std::vector<LevelLayer> layers;  // innermost first
  uint16_t max_rep = 0;
  uint16_t max_def = 0;
};

// Leaves of a top-level column, depth first. kUnsupported names a type that is not read.
Result<std::vector<LeafShape>> LeafShapesOf(const arrow::Field& column);

// The layers that one page declares.
class PageLevels {
 public:
  // kCorrupt when they do not fit the leaf.
  static Result<PageLevels> Make(const google::protobuf::RepeatedField<int>& layers,
                                 const LeafShape& shape);

  uint16_t max_rep() const { return max_rep_; }
  uint16_t max_def() const { return static_cast<uint16_t>(canonical_.size() - 1); }
  // Items with a higher definition have no value slot.
  uint16_t max_slot_def() const { return max_slot_def_; }
  uint16_t Canonical(uint16_t def) const { return canonical_[def]; }

 private:
  uint16_t max_rep_ = 0;
  uint16_t max_slot_def_ = 0;
  std::vector<uint16_t> canonical_;  // by the page's definition level
};

}  // namespace sarissa::lance
