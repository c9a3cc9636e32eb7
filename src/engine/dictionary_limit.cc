#include "engine/dictionary_limit.h"

#include <arrow/array.h>
#include <arrow/type.h>

namespace sarissa::engine {
namespace {

void CollectUsed(const arrow::Array& column, std::set<std::string, std::less<>>& values) {
  const auto& dictionary_array = static_cast<const arrow::DictionaryArray&>(column);
  const auto& dictionary = static_cast<const arrow::StringArray&>(*dictionary_array.dictionary());
  std::vector<uint8_t> used(static_cast<size_t>(dictionary.length()), 0);
  for (int64_t row = 0; row < column.length(); ++row) {
    if (column.IsValid(row)) used[static_cast<size_t>(dictionary_array.GetValueIndex(row))] = 1;
  }
  for (size_t value = 0; value < used.size(); ++value) {
    if (used[value] != 0) values.emplace(dictionary.GetView(static_cast<int64_t>(value)));
  }
}

}  // namespace

DictionaryLimit::DictionaryLimit(const arrow::Schema& schema) {
  for (const auto& field : schema.fields()) {
    if (field->type()->id() != arrow::Type::DICTIONARY) continue;
    const auto& type = static_cast<const arrow::DictionaryType&>(*field->type());
    if (type.index_type()->id() == arrow::Type::INT8 &&
        type.value_type()->id() == arrow::Type::STRING) {
      columns_.push_back(field->name());
    }
  }
}

Result<DictionaryLimit::Verdict> DictionaryLimit::Admit(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, uint64_t stored_rows) {
  Values incoming;
  for (const auto& batch : batches) {
    for (const std::string& name : columns_)
      CollectUsed(*batch->GetColumnByName(name), incoming[name]);
  }
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, values] : incoming) {
    const auto& known = known_[name];
    size_t fresh = 0;
    for (const std::string& value : values) fresh += known.contains(value) ? 0 : 1;
    if (fresh == 0) continue;
    if (known.size() + fresh > kMaxDictionaryValues) {
      return Error(
          ErrorKind::kInvalid,
          "column {}: a store holds at most {} distinct values, this append would make it {}", name,
          kMaxDictionaryValues, known.size() + fresh);
    }
    if (!complete_ && stored_rows + known.size() + fresh > kMaxDictionaryValues)
      return Verdict::kNeedsStored;
  }
  for (auto& [name, values] : incoming) known_[name].merge(values);
  return Verdict::kAdmitted;
}

void DictionaryLimit::AddStored(const arrow::RecordBatch& batch) {
  const std::scoped_lock lock(mutex_);
  for (const std::string& name : columns_) CollectUsed(*batch.GetColumnByName(name), known_[name]);
}

void DictionaryLimit::StoredComplete() {
  const std::scoped_lock lock(mutex_);
  complete_ = true;
}

}  // namespace sarissa::engine
