// Picks rows out of batches: live rows of a range, rows in the order asked for. Pure functions,
// thread safe.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"

namespace sarissa::lance {

// Rows `rows` of `batch`, in that order.
Result<std::shared_ptr<arrow::RecordBatch>> TakeRows(const arrow::RecordBatch& batch,
                                                     std::span<const int64_t> rows);
// One batch of all rows; without a copy when there is one part only.
Result<std::shared_ptr<arrow::RecordBatch>> ConcatenateParts(
    const std::shared_ptr<arrow::Schema>& schema,
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& parts);

}  // namespace sarissa::lance
