// The scan of a table version: fragments in order, rows in physical order, deleted ones left out.
#pragma once

#include <memory>

#include "lance/table/open_files.h"
#include "lance/table/table.h"

namespace sarissa::lance {

// The fields that the projection of `columns` names, in that order; all without it. kInvalid for an
// unknown one.
Result<Schema> Project(const Schema& schema,
                       const std::optional<std::vector<std::string>>& columns);

// The stream keeps `table` alive.
Result<std::unique_ptr<BatchStream>> ScanTable(std::shared_ptr<const Table> table,
                                               std::shared_ptr<OpenFiles> files,
                                               const ScanOptions& options);

}  // namespace sarissa::lance
