// Writes the values of one column of a batch as JSON. Each kind of column has its writer; see
// MakeValueWriter. Immutable.
#pragma once

#include <arrow/array/array_base.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {

class ValueWriter {
 public:
  virtual ~ValueWriter() = default;
  // Whether the row has a value that appears in the JSON.
  virtual bool Has(int64_t row) const = 0;
  // Appends the value of a row that has one.
  virtual Status Write(int64_t row, std::string& out) const = 0;
};

// kUnsupported if the array's type is not one that `column` may have.
Result<std::unique_ptr<ValueWriter>> MakeValueWriter(Column column,
                                                     const std::shared_ptr<arrow::Array>& array);

}  // namespace sarissa::rollout
