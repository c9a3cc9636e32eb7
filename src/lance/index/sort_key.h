// The order of B-tree values: ascending, nulls first, NaN last, -0.0 before 0.0; bytes compare as
// unsigned.
//
// A value becomes a 64-bit prefix that settles most comparisons, and for strings and binary the
// whole value for the rest. Views into the array: valid while it lives. Thread safe.
#pragma once

#include <arrow/array.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace sarissa::lance {

struct SortKey {
  uint64_t prefix = 0;
  std::string_view bytes;  // empty for fixed-width types

  std::strong_ordering operator<=>(const SortKey& other) const {
    if (prefix != other.prefix) return prefix <=> other.prefix;
    return bytes.compare(other.bytes) <=> 0;
  }
  bool operator==(const SortKey& other) const {
    return prefix == other.prefix && bytes == other.bytes;
  }
};

// Keys of one array's values.
class SortKeys {
 public:
  // kUnsupported for a type that a B-tree cannot have.
  static Result<SortKeys> Of(std::shared_ptr<arrow::Array> values);
  // The value at `row` must not be null.
  SortKey At(int64_t row) const { return get_(*values_, row); }
  bool IsNull(int64_t row) const { return values_->IsNull(row); }

 private:
  using Get = SortKey (*)(const arrow::Array& values, int64_t row);
  SortKeys(std::shared_ptr<arrow::Array> values, Get get) : values_(std::move(values)), get_(get) {}

  std::shared_ptr<arrow::Array> values_;
  Get get_;
};

}  // namespace sarissa::lance
