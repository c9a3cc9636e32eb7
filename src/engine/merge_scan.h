// The newest-wins merge: streams the rows of a snapshot, oldest source first, each key once,
// filtered, projected, paged.
//
// Filters run on the few columns they need before the others are read (late materialisation).
// Memory is bounded by a batch.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "engine/snapshot.h"
#include "engine/table.h"
#include "lance/table/table.h"

namespace sarissa::engine {

// `user_schema` names the columns that exist for the user. Unknown columns are kInvalid.
Result<std::unique_ptr<lance::BatchStream>> MergeScan(
    std::shared_ptr<const Snapshot> snapshot, const std::shared_ptr<arrow::Schema>& user_schema,
    const ReadOptions& options);

// The newest row of `key`, one row or null.
Result<std::shared_ptr<arrow::RecordBatch>> PointRead(
    const Snapshot& snapshot, const std::shared_ptr<arrow::Schema>& user_schema,
    std::string_view key, const std::vector<std::string>& columns);

}  // namespace sarissa::engine
