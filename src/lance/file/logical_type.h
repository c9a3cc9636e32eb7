// The format's names of types ("string", "timestamp:us:UTC", "dict:string:int8:false") and their
// Arrow types. Pure functions, thread safe. Errors carry the type's name only; callers add the
// field.
#pragma once

#include <arrow/type.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sarissa::lance {

// True for types that own a column: everything but struct, list, large_list and map.
bool IsLeafType(const arrow::DataType& type);

// kUnsupported when the format (as this project writes it) has no such type.
Result<std::string> LogicalTypeOf(const arrow::DataType& type);

// `children` are the fields below, for list, large_list, struct and map; empty for leaves.
// kUnsupported for an unknown name, kCorrupt when the children do not fit the name.
Result<std::shared_ptr<arrow::DataType>> ArrowTypeOf(
    std::string_view logical_type, const std::vector<std::shared_ptr<arrow::Field>>& children);

// The legacy encoding number of a field: 1 plain, 2 var-binary, 3 dictionary, 0 none.
int LegacyEncodingOf(const arrow::DataType& type);

}  // namespace sarissa::lance
