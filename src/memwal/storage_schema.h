// The schema that memtables, log entries and generations have: the base table's columns with their
// field ids and, last,
// `_tombstone: bool not null`.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <vector>

#include "lance/file/schema.h"

namespace sarissa::memwal {

inline constexpr char kTombstoneColumn[] = "_tombstone";

Result<lance::Schema> StorageSchema(const lance::Schema& base);

// `batch` (exactly the base columns) with `_tombstone` = false for every row. Shares the columns.
Result<std::shared_ptr<arrow::RecordBatch>> WithLiveTombstones(
    const std::shared_ptr<arrow::RecordBatch>& batch, const lance::Schema& storage);

// A batch of another writer in the order and types of `storage`: columns are matched by name;
// missing nullable columns become null, a missing `_tombstone` false, unknown columns are dropped;
// another type or a missing not-null column is kCorrupt.
Result<std::shared_ptr<arrow::RecordBatch>> AlignToStorage(const arrow::RecordBatch& batch,
                                                           const lance::Schema& storage);

}  // namespace sarissa::memwal
