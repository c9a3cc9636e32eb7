// Builds a top-level Arrow array from the leaves below it: values by SlotBuilder, structure from
// levels.
//
// The levels are peeled from the inside out: an item layer gives the validity of its array, a list
// layer gives offsets and validity and folds the entries of each list into one. A struct takes its
// levels from its first leaf; all its leaves must agree on the length. Errors: kCorrupt for levels
// that fit no array.
#pragma once

#include <arrow/array.h>
#include <arrow/type.h>

#include <memory>
#include <span>

#include "lance/file/page_reader.h"

namespace sarissa::lance {

struct LeafValues {
  const LeafShape* shape = nullptr;
  LeafSink sink;
};

// The array of `field` for `rows` rows from its leaves, depth first; the leaves are used up.
Result<std::shared_ptr<arrow::Array>> Unravel(const arrow::Field& field,
                                              std::span<LeafValues> leaves, uint64_t rows);

}  // namespace sarissa::lance
