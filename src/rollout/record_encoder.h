// Rows of a rollout table as the JSON of the wire contract: null columns omitted, relationships
// omitted when empty, timestamps RFC 3339 with Z and 0, 3 or 6 fraction digits, float32 as the
// shortest text that reads back as the same float32 (NaN and infinities as null), metadata as the
// JSON value it holds. binary_payload is never written.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace sarissa::rollout {

// Columns that a JSON answer needs: all but binary_payload.
const std::vector<std::string>& JsonColumns();

// Appends rows [first, first + count) of `batch` to `out` as JSON objects separated by commas. The
// batch's columns may be any subset of RecordSchema() in any order. Thread safe.
Status EncodeRecords(const arrow::RecordBatch& batch, int64_t first, int64_t count,
                     std::string& out);

}  // namespace sarissa::rollout
