#include "lance/index/sort_key.h"

#include <arrow/type.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sarissa::lance {
namespace {

constexpr uint64_t kSignBit = uint64_t{1} << 63;

template <typename ArrayType>
SortKey IntegerKey(const arrow::Array& values, int64_t row) {
  const auto value = static_cast<const ArrayType&>(values).Value(row);
  if constexpr (std::is_signed_v<decltype(value)>) {
    return {static_cast<uint64_t>(static_cast<int64_t>(value)) ^ kSignBit, {}};
  } else {
    return {static_cast<uint64_t>(value), {}};
  }
}

// The order of IEEE totalOrder, except that all NaNs are one value after infinity.
template <typename ArrayType>
SortKey FloatKey(const arrow::Array& values, int64_t row) {
  const double value = static_cast<double>(static_cast<const ArrayType&>(values).Value(row));
  if (std::isnan(value)) return {std::numeric_limits<uint64_t>::max(), {}};
  const auto bits = std::bit_cast<uint64_t>(value);
  return {(bits & kSignBit) != 0 ? ~bits : bits | kSignBit, {}};
}

SortKey BooleanKey(const arrow::Array& values, int64_t row) {
  return {static_cast<const arrow::BooleanArray&>(values).Value(row) ? uint64_t{1} : uint64_t{0},
          {}};
}

template <typename ArrayType>
SortKey BytesKey(const arrow::Array& values, int64_t row) {
  const std::string_view bytes = static_cast<const ArrayType&>(values).GetView(row);
  uint8_t head[8] = {};
  std::memcpy(head, bytes.data(), std::min(bytes.size(), sizeof(head)));
  uint64_t prefix = 0;
  for (const uint8_t byte : head) prefix = prefix << 8 | byte;
  return {prefix, bytes};
}

}  // namespace

Result<SortKeys> SortKeys::Of(std::shared_ptr<arrow::Array> values) {
  const auto with = [&](Get get) -> Result<SortKeys> { return SortKeys(std::move(values), get); };
  switch (values->type_id()) {
    case arrow::Type::BOOL:
      return with(BooleanKey);
    case arrow::Type::INT8:
      return with(IntegerKey<arrow::Int8Array>);
    case arrow::Type::INT16:
      return with(IntegerKey<arrow::Int16Array>);
    case arrow::Type::INT32:
      return with(IntegerKey<arrow::Int32Array>);
    case arrow::Type::INT64:
      return with(IntegerKey<arrow::Int64Array>);
    case arrow::Type::UINT8:
      return with(IntegerKey<arrow::UInt8Array>);
    case arrow::Type::UINT16:
      return with(IntegerKey<arrow::UInt16Array>);
    case arrow::Type::UINT32:
      return with(IntegerKey<arrow::UInt32Array>);
    case arrow::Type::UINT64:
      return with(IntegerKey<arrow::UInt64Array>);
    case arrow::Type::DATE32:
      return with(IntegerKey<arrow::Date32Array>);
    case arrow::Type::DATE64:
      return with(IntegerKey<arrow::Date64Array>);
    case arrow::Type::TIMESTAMP:
      return with(IntegerKey<arrow::TimestampArray>);
    case arrow::Type::FLOAT:
      return with(FloatKey<arrow::FloatArray>);
    case arrow::Type::DOUBLE:
      return with(FloatKey<arrow::DoubleArray>);
    case arrow::Type::STRING:
      return with(BytesKey<arrow::StringArray>);
    case arrow::Type::LARGE_STRING:
      return with(BytesKey<arrow::LargeStringArray>);
    case arrow::Type::BINARY:
      return with(BytesKey<arrow::BinaryArray>);
    case arrow::Type::LARGE_BINARY:
      return with(BytesKey<arrow::LargeBinaryArray>);
    case arrow::Type::FIXED_SIZE_BINARY:
      return with(BytesKey<arrow::FixedSizeBinaryArray>);
    default:
      return Error(ErrorKind::kUnsupported, "a B-tree over values of type {}",
                   values->type()->ToString());
  }
}

}  // namespace sarissa::lance
