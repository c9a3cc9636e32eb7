// The primary key column of a batch: one string column, utf8 or large_utf8, without nulls. Pure
// functions, thread safe.
#pragma once

#include <arrow/array.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sarissa::memwal {

// kUnsupported unless `column` holds strings; kCorrupt when one of them is null.
Status CheckKeyColumn(const arrow::Array& column, const std::string& place);
// The bytes of the key at `row` of a checked column.
std::string_view KeyBytes(const arrow::Array& column, int64_t row);

}  // namespace sarissa::memwal
