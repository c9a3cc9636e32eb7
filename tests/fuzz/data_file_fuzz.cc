// Data files: every column is read by the file's own schema. What is read is valid, and a window or
// a choice of rows gives the same as the same rows of a longer read.
#include <arrow/array/array_dict.h>
#include <arrow/compare.h>
#include <arrow/scalar.h>

#include <algorithm>

#include "lance/file/file_reader.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/lance/memory_object.h"

namespace sarissa::lance {
namespace {

// A page of one constant is a few bytes for any number of rows, so a reader asks for as many as it
// can hold.
constexpr uint64_t kWindow = 512;

bool HasDictionary(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) return true;
  return std::ranges::any_of(type.fields(),
                             [](const auto& field) { return HasDictionary(*field->type()); });
}

// A read may bring only the dictionary values that its rows use: of dictionaries, what they stand
// for is compared.
bool Same(const arrow::Array& left, const arrow::Array& right) {
  // NaN differs from itself, but not from a copy of its bits.
  if (left.Equals(right, arrow::EqualOptions::Defaults().nans_equal(true))) return true;
  if (left.length() != right.length() || !HasDictionary(*left.type())) return false;
  if (left.type_id() != arrow::Type::DICTIONARY) return true;
  for (int64_t row = 0; row < left.length(); ++row) {
    if (left.IsNull(row) != right.IsNull(row)) return false;
    if (left.IsNull(row)) continue;
    const auto value = [row](const arrow::Array& array) {
      const auto& codes = static_cast<const arrow::DictionaryArray&>(array);
      return codes.dictionary()->GetScalar(codes.GetValueIndex(row)).ValueOrDie()->ToString();
    };
    if (value(left) != value(right)) return false;
  }
  return true;
}

void CheckColumn(const FileReader& reader, const ColumnRequest& column, uint64_t seed) {
  const std::span<const ColumnRequest> columns(&column, 1);
  const uint64_t rows = reader.num_rows();
  const uint64_t count = std::min(rows, kWindow);
  const auto batch = reader.Read(columns, 0, count);
  if (rows > count) (void)reader.Read(columns, rows - count, count);
  if (!batch.ok() || count == 0) return;
  const Status valid = (*batch)->ValidateFull();
  // Text is not looked at: whoever writes JSON of it does that.
  const bool bad_text = valid.message().find("Invalid UTF8") != std::string::npos;
  SARISSA_CHECK(valid.ok() || bad_text, "{}", valid.ToString());
  SARISSA_CHECK((*batch)->num_rows() == static_cast<int64_t>(count));
  const uint64_t first = seed % count;
  const auto window = reader.Read(columns, first, count - first);
  SARISSA_CHECK(window.ok(), "{}", window.status().message());
  const auto same_window = (*batch)->column(0)->Slice(static_cast<int64_t>(first));
  SARISSA_CHECK(Same(*(*window)->column(0), *same_window));
  const std::vector<uint64_t> chosen = {first};
  const auto taken = reader.Take(columns, chosen);
  SARISSA_CHECK(taken.ok(), "{}", taken.status().message());
  SARISSA_CHECK(Same(*(*taken)->column(0), *same_window->Slice(0, 1)));
}

void Check(std::span<const uint8_t> data) {
  const auto reader =
      FileReader::Open(std::make_shared<MemoryObject>("fuzz.lance", fuzz::ExactBuffer(data)));
  if (!reader.ok()) return;
  const auto columns = (*reader)->AllColumns();
  if (!columns.ok()) return;
  const uint64_t seed = fuzz::SeedOf(data);
  for (const ColumnRequest& column : *columns) CheckColumn(**reader, column, seed);
  for (int32_t i = 0; i < (*reader)->num_columns(); ++i) (void)(*reader)->ColumnBytes(i);
}

}  // namespace
}  // namespace sarissa::lance

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::lance::Check({data, size});
  return 0;
}
