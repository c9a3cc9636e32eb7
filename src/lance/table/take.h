// Rows of a table version by address.
#pragma once

#include <memory>
#include <span>

#include "lance/table/open_files.h"
#include "lance/table/table.h"

namespace sarissa::lance {

// See Table::Take. A single row's large values come without a copy.
Result<std::shared_ptr<arrow::RecordBatch>> TakeAddresses(
    const Table& table, OpenFiles& files, std::span<const RowAddress> addresses,
    const std::optional<std::vector<std::string>>& columns);

}  // namespace sarissa::lance
