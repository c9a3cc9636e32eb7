// One column of an Arrow append body: which Arrow types a record column takes, and its values, row
// by row, into the columns of the append.
//
// Text columns take utf8, large utf8 and dictionaries of these with any index type; lists take list
// and large list; binary_payload takes binary and large binary; created_at takes microseconds with
// any zone (they count from the epoch in UTC either way). All else takes exactly its own type.
#pragma once

#include <arrow/array/array_base.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.h"
#include "rollout/record_columns.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {

// kInvalid with what was expected. A column of type null is accepted for every column: it has no
// values.
Status CheckArrowType(Column column, const arrow::DataType& type);

class ArrowColumn {
 public:
  explicit ArrowColumn(std::shared_ptr<arrow::Array> array) : array_(std::move(array)) {}
  virtual ~ArrowColumn() = default;
  // Of an array that passed ValidateFull and whose type passed CheckArrowType.
  static std::unique_ptr<ArrowColumn> Make(Column column, std::shared_ptr<arrow::Array> array);

  virtual bool IsNull(int64_t row) const { return array_->IsNull(row); }
  // Bytes that the value of `row` takes beside its fixed place in the row. Not of a null.
  virtual int64_t Bytes(int64_t /*row*/) const { return 0; }
  // Appends the value of `row`, which is not null. kInvalid, without the place, for a value that
  // the column does not take.
  virtual Status Append(int64_t row, RecordColumns& out) const = 0;

 protected:
  const std::shared_ptr<arrow::Array> array_;
};

}  // namespace sarissa::rollout
