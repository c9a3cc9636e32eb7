// A filter over rows, pushed down to every tier. The domain (rollout/) makes them; the engine only
// evaluates them.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace sarissa::engine {

// Immutable, thread safe.
class Predicate {
 public:
  virtual ~Predicate() = default;
  // Columns that Evaluate needs to find in the batch.
  virtual const std::vector<std::string>& columns() const = 0;
  // Clears `keep[i]` for every row i of `batch` that does not match; never sets one. `keep` has one
  // entry per row.
  virtual Status Evaluate(const arrow::RecordBatch& batch, std::vector<uint8_t>& keep) const = 0;
};

}  // namespace sarissa::engine
