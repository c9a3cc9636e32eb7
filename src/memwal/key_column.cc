#include "memwal/key_column.h"

namespace sarissa::memwal {

Status CheckKeyColumn(const arrow::Array& column, const std::string& place) {
  if (column.type_id() != arrow::Type::STRING && column.type_id() != arrow::Type::LARGE_STRING) {
    return Error(ErrorKind::kUnsupported, "{}: a key of type {}", place, column.type()->ToString());
  }
  if (column.null_count() == 0) return Status::OK();
  return Error(ErrorKind::kCorrupt, "{}: {} keys are null", place, column.null_count());
}

std::string_view KeyBytes(const arrow::Array& column, int64_t row) {
  if (column.type_id() == arrow::Type::LARGE_STRING) {
    return static_cast<const arrow::LargeStringArray&>(column).GetView(row);
  }
  return static_cast<const arrow::StringArray&>(column).GetView(row);
}

}  // namespace sarissa::memwal
