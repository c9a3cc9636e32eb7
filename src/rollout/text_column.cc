#include "rollout/text_column.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/type.h>

#include <utility>

namespace sarissa::rollout {
namespace {

bool IsText(arrow::Type::type id) {
  return id == arrow::Type::STRING || id == arrow::Type::LARGE_STRING;
}

}  // namespace

std::string_view TextAt(const arrow::Array& array, int64_t row) {
  if (array.type_id() == arrow::Type::STRING) {
    return static_cast<const arrow::StringArray&>(array).GetView(row);
  }
  return static_cast<const arrow::LargeStringArray&>(array).GetView(row);
}

Result<TextColumn> TextColumn::Make(std::shared_ptr<arrow::Array> array) {
  TextColumn column;
  const arrow::Array* values = array.get();
  if (array->type_id() == arrow::Type::DICTIONARY) {
    column.dictionary_ = static_cast<const arrow::DictionaryArray&>(*array).dictionary();
    values = column.dictionary_.get();
  }
  if (!IsText(values->type_id())) {
    return Error(ErrorKind::kUnsupported, "expected strings, got {}", array->type()->ToString());
  }
  column.array_ = std::move(array);
  return column;
}

Result<int64_t> TextColumn::CodeAt(int64_t row) const {
  const int64_t code = static_cast<const arrow::DictionaryArray&>(*array_).GetValueIndex(row);
  if (code < 0 || code >= dictionary_->length()) {
    return Error(ErrorKind::kCorrupt, "dictionary code {} in row {}, but there are {} values", code,
                 row, dictionary_->length());
  }
  return code;
}

Result<std::string_view> TextColumn::At(int64_t row) const {
  if (dictionary_ == nullptr) return TextAt(*array_, row);
  ARROW_ASSIGN_OR_RAISE(const int64_t code, CodeAt(row));
  if (dictionary_->IsNull(code)) {
    return Error(ErrorKind::kCorrupt, "dictionary code {} in row {} is a null value", code, row);
  }
  return TextAt(*dictionary_, code);
}

}  // namespace sarissa::rollout
