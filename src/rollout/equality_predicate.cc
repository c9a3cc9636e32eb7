#include "rollout/equality_predicate.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/array/array_primitive.h>
#include <arrow/type.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "rollout/text_column.h"

namespace sarissa::rollout {
namespace {

void ClearNulls(const arrow::Array& array, std::vector<uint8_t>& keep) {
  if (array.null_count() == 0) return;
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) keep[static_cast<size_t>(i)] = 0;
  }
}

// Compares lengths first: most rows differ there, without a look at the bytes.
template <typename Array>
void MatchStrings(const Array& array, std::string_view wanted, std::vector<uint8_t>& keep) {
  const auto* offsets = array.raw_value_offsets();
  const uint8_t* bytes = array.raw_data();
  for (int64_t i = 0; i < array.length(); ++i) {
    const auto size = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    const bool same =
        size == wanted.size() && std::memcmp(bytes + offsets[i], wanted.data(), size) == 0;
    keep[static_cast<size_t>(i)] &= static_cast<uint8_t>(same);
  }
  ClearNulls(array, keep);
}

Status MatchDictionary(const std::shared_ptr<arrow::Array>& array, std::string_view wanted,
                       std::vector<uint8_t>& keep) {
  ARROW_ASSIGN_OR_RAISE(const TextColumn column, TextColumn::Make(array));
  const arrow::Array& values = *column.dictionary();
  std::vector<uint8_t> matches(static_cast<size_t>(values.length()));
  for (int64_t i = 0; i < values.length(); ++i) {
    matches[static_cast<size_t>(i)] = values.IsValid(i) && TextAt(values, i) == wanted;
  }
  for (int64_t i = 0; i < array->length(); ++i) {
    uint8_t& kept = keep[static_cast<size_t>(i)];
    if (kept == 0) continue;
    if (array->IsNull(i)) {
      kept = 0;
      continue;
    }
    ARROW_ASSIGN_OR_RAISE(const int64_t code, column.CodeAt(i));
    kept = matches[static_cast<size_t>(code)];
  }
  return Status::OK();
}

Status MatchText(const std::shared_ptr<arrow::Array>& array, std::string_view wanted,
                 std::vector<uint8_t>& keep) {
  switch (array->type_id()) {
    case arrow::Type::STRING:
      MatchStrings(static_cast<const arrow::StringArray&>(*array), wanted, keep);
      return Status::OK();
    case arrow::Type::LARGE_STRING:
      MatchStrings(static_cast<const arrow::LargeStringArray&>(*array), wanted, keep);
      return Status::OK();
    case arrow::Type::DICTIONARY:
      return MatchDictionary(array, wanted, keep);
    default:
      return Error(ErrorKind::kUnsupported, "expected strings, got {}", array->type()->ToString());
  }
}

Status MatchBool(const arrow::Array& array, bool wanted, std::vector<uint8_t>& keep) {
  if (array.type_id() != arrow::Type::BOOL) {
    return Error(ErrorKind::kUnsupported, "expected booleans, got {}", array.type()->ToString());
  }
  const auto& values = static_cast<const arrow::BooleanArray&>(array);
  for (int64_t i = 0; i < values.length(); ++i) {
    keep[static_cast<size_t>(i)] &= static_cast<uint8_t>(values.Value(i) == wanted);
  }
  ClearNulls(array, keep);
  return Status::OK();
}

}  // namespace

EqualityPredicate::EqualityPredicate(std::vector<Condition> conditions)
    : conditions_(std::move(conditions)) {
  for (const Condition& condition : conditions_) columns_.push_back(condition.column);
}

Status EqualityPredicate::Evaluate(const arrow::RecordBatch& batch,
                                   std::vector<uint8_t>& keep) const {
  if (keep.size() != static_cast<size_t>(batch.num_rows())) {
    return Error(ErrorKind::kInternal, "{} marks for a batch of {} rows", keep.size(),
                 batch.num_rows());
  }
  for (const Condition& condition : conditions_) {
    const std::shared_ptr<arrow::Array> array = batch.GetColumnByName(condition.column);
    if (array == nullptr) {
      return Error(ErrorKind::kInternal, "the filter's column {} is not in the batch",
                   condition.column);
    }
    const auto* text = std::get_if<std::string>(&condition.value);
    const Status status = text != nullptr
                              ? MatchText(array, *text, keep)
                              : MatchBool(*array, std::get<bool>(condition.value), keep);
    if (!status.ok()) return Annotate(status, condition.column);
  }
  return Status::OK();
}

}  // namespace sarissa::rollout
