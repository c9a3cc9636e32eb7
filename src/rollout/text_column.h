// Reads strings out of a column whichever way it stores them: utf8, large utf8, or a dictionary of
// one of these (also a slice). Holds the array; thread safe once made.
#pragma once

#include <arrow/array/array_base.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"

namespace sarissa::rollout {

class TextColumn {
 public:
  // kUnsupported if the array does not hold strings.
  static Result<TextColumn> Make(std::shared_ptr<arrow::Array> array);

  bool IsNull(int64_t row) const { return array_->IsNull(row); }
  // Must not be null. kCorrupt if a dictionary code has no value.
  Result<std::string_view> At(int64_t row) const;

  // The dictionary and the codes, null for plain strings.
  const std::shared_ptr<arrow::Array>& dictionary() const { return dictionary_; }
  // Of a dictionary column only; kCorrupt as above.
  Result<int64_t> CodeAt(int64_t row) const;

 private:
  TextColumn() = default;

  std::shared_ptr<arrow::Array> array_;
  std::shared_ptr<arrow::Array> dictionary_;
};

// Of a utf8 or large utf8 array.
std::string_view TextAt(const arrow::Array& array, int64_t row);

}  // namespace sarissa::rollout
