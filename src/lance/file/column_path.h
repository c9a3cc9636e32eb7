// The way from a top-level column down to one of its leaves, and the level numbers of each step.
//
// Levels are numbered from the inside out: definition 0 is a valid value; going outwards a nullable
// item takes one level, a list takes two (null, then empty). Repetition k starts a new list at list
// layer k, the innermost list is 1. Layers are declared maximally and alike for all pages: an item
// that can be null, by itself or with a struct around it, is always NULLABLE_ITEM, every list is
// NULL_AND_EMPTY_LIST. Pages of a column that disagree, and lists below something nullable that
// cannot be null themselves, make readers lose or invent rows; a required struct that is declared
// ALL_VALID below a null one makes Lance refuse a page of nulls only. Immutable, thread safe.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/lance_encodings.pb.h"

namespace sarissa::lance {

struct PathLayer {
  bool is_list = false;
  bool nullable = true;     // of the field; a list layer's levels exist either way
  bool can_be_null = true;  // nullable, or in a struct that can be null
  int child = 0;            // which child the path goes on with
  uint16_t null_level = 0;
  uint16_t empty_level = 0;   // lists only
  uint16_t repetition = 0;    // lists only: 1 for the innermost
  uint16_t max_slot_def = 0;  // items with a higher definition have no slot in this layer's array
  std::string name;           // dotted, for messages
};

struct ColumnPath {
  std::vector<PathLayer> layers;  // outermost first; the last is the leaf
  std::shared_ptr<arrow::DataType> leaf_type;
  std::vector<pb::encodings::RepDefLayer> declared;  // as the format lists them, innermost first
  uint16_t max_rep = 0;
  uint16_t max_def = 0;
  uint16_t max_visible_def = 0;  // items with a higher definition have no value slot

  bool has_rep() const { return max_rep > 0; }
  bool has_def() const { return max_def > 0; }
  const std::string& name() const { return layers.back().name; }
};

// One path per leaf, in column order.
std::vector<ColumnPath> LeafPathsOf(const arrow::Field& column);

}  // namespace sarissa::lance
