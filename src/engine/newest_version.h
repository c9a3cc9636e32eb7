// Moving a table handle to the newest version at the cost of one look when nothing changed.
#pragma once

#include <memory>

#include "lance/table/table.h"

namespace sarissa::engine {

// `table` itself when no newer version exists, else the newest. kNotFound when the table is gone.
Result<std::shared_ptr<lance::Table>> NewestVersion(const std::shared_ptr<lance::Table>& table);

}  // namespace sarissa::engine
