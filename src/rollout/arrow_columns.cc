#include "rollout/arrow_columns.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/array/array_nested.h>
#include <arrow/array/array_primitive.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "env/mapped_range.h"
#include "rollout/json_canonical.h"
#include "rollout/json_cursor.h"
#include "rollout/timestamp.h"

namespace sarissa::rollout {
namespace {

using TypeId = arrow::Type::type;

// Containers that surround a metadata value in the JSON form of an append.
constexpr int kMetadataDepth = 3;

Status Expected(std::string_view what, const arrow::DataType& type) {
  return Error(ErrorKind::kInvalid, "expected {}, got {}", what, type.ToString());
}

bool IsText(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return IsText(*static_cast<const arrow::DictionaryType&>(type).value_type());
  }
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

// The item type of a list, null for another type.
const arrow::DataType* ItemType(const arrow::DataType& type) {
  if (type.id() != arrow::Type::LIST && type.id() != arrow::Type::LARGE_LIST) return nullptr;
  return static_cast<const arrow::BaseListType&>(type).value_type().get();
}

Status CheckRelationshipType(const arrow::DataType& type) {
  std::vector<bool> seen(3);
  for (const auto& field : type.fields()) {
    const bool weight = field->name() == "weight";
    if (!weight && field->name() != "target_id" && field->name() != "relation") {
      return Error(ErrorKind::kInvalid, "unknown field '{}'", field->name());
    }
    const size_t which = weight ? 2 : field->name() == "relation" ? 1 : 0;
    if (seen[which]) return Error(ErrorKind::kInvalid, "duplicate field '{}'", field->name());
    seen[which] = true;
    const TypeId id = field->type()->id();
    if (id == arrow::Type::NA) continue;
    if (weight && id != arrow::Type::FLOAT) {
      return Annotate(Expected("float", *field->type()), "weight");
    }
    if (!weight && !IsText(*field->type())) {
      return Annotate(Expected("string", *field->type()), field->name());
    }
  }
  if (!seen[0]) return Error(ErrorKind::kInvalid, "missing field 'target_id'");
  if (!seen[1]) return Error(ErrorKind::kInvalid, "missing field 'relation'");
  return Status::OK();
}

Status CheckListType(const arrow::DataType& wanted, const arrow::DataType& type) {
  const arrow::DataType& wanted_item = *ItemType(wanted);
  const arrow::DataType* item = ItemType(type);
  if (item == nullptr) return Expected(wanted.ToString(), type);
  if (item->id() == arrow::Type::NA) return Status::OK();
  if (item->id() != wanted_item.id()) return Expected(wanted.ToString(), type);
  return item->id() == arrow::Type::STRUCT ? CheckRelationshipType(*item) : Status::OK();
}

// Strings, whichever way they are stored.
class Texts {
 public:
  explicit Texts(std::shared_ptr<arrow::Array> array) : array_(std::move(array)) {
    if (array_->type_id() != arrow::Type::DICTIONARY) return;
    codes_ = static_cast<const arrow::DictionaryArray*>(array_.get());
    values_ = codes_->dictionary();
  }

  bool IsNull(int64_t row) const {
    return array_->IsNull(row) ||
           (codes_ != nullptr && values_->IsNull(codes_->GetValueIndex(row)));
  }
  std::string_view At(int64_t row) const {
    const std::string_view text =
        codes_ != nullptr ? View(*values_, codes_->GetValueIndex(row)) : View(*array_, row);
    // An empty view may have no address, which a builder would hand to memcpy.
    return text.empty() ? std::string_view("") : text;
  }

 private:
  static std::string_view View(const arrow::Array& array, int64_t index) {
    return array.type_id() == arrow::Type::STRING
               ? static_cast<const arrow::StringArray&>(array).GetView(index)
               : static_cast<const arrow::LargeStringArray&>(array).GetView(index);
  }

  std::shared_ptr<arrow::Array> array_;
  const arrow::DictionaryArray* codes_ = nullptr;
  std::shared_ptr<arrow::Array> values_;
};

class NoValues final : public ArrowColumn {
 public:
  using ArrowColumn::ArrowColumn;
  bool IsNull(int64_t /*row*/) const override { return true; }
  Status Append(int64_t /*row*/, RecordColumns& /*out*/) const override { return Status::OK(); }
};

class TextValues : public ArrowColumn {
 public:
  TextValues(Column column, std::shared_ptr<arrow::Array> array)
      : ArrowColumn(array), column_(column), texts_(std::move(array)) {}

  bool IsNull(int64_t row) const override { return texts_.IsNull(row); }
  int64_t Bytes(int64_t row) const override { return static_cast<int64_t>(texts_.At(row).size()); }
  Status Append(int64_t row, RecordColumns& out) const override {
    if (column_ == kRole) return out.AppendRole(texts_.At(row));
    return out.AppendText(column_, texts_.At(row));
  }

 protected:
  const Column column_;
  const Texts texts_;
};

// JSON text; the JSON null is no value, as it is in a JSON body.
class MetadataValues final : public TextValues {
 public:
  using TextValues::TextValues;

  Status Append(int64_t row, RecordColumns& out) const override {
    JsonCursor cursor(texts_.At(row), kMaxJsonDepth - kMetadataDepth);
    std::string canonical;
    if (!AppendCanonicalJson(cursor, canonical)) {
      return Error(ErrorKind::kInvalid, "not JSON: {}", cursor.error());
    }
    if (!cursor.AtEnd()) return Error(ErrorKind::kInvalid, "not JSON: content after the value");
    return canonical == "null" ? out.AppendNull(kMetadata) : out.AppendText(kMetadata, canonical);
  }
};

template <typename Array, auto kAppend>
class PlainValues final : public ArrowColumn {
 public:
  PlainValues(Column column, std::shared_ptr<arrow::Array> array)
      : ArrowColumn(std::move(array)), column_(column) {}
  Status Append(int64_t row, RecordColumns& out) const override {
    const auto value = static_cast<const Array&>(*array_).Value(row);
    if constexpr (std::is_same_v<Array, arrow::FloatArray>) {
      if (!std::isfinite(value)) return Error(ErrorKind::kInvalid, "not a finite number");
    }
    return (out.*kAppend)(column_, value);
  }

 private:
  const Column column_;
};

class TimestampValues final : public ArrowColumn {
 public:
  using ArrowColumn::ArrowColumn;
  Status Append(int64_t row, RecordColumns& out) const override {
    const int64_t micros = static_cast<const arrow::TimestampArray&>(*array_).Value(row);
    if (!IsInYearRange(micros)) return Error(ErrorKind::kInvalid, "the year is out of range");
    return out.AppendTimestamp(micros);
  }
};

class PayloadValues final : public ArrowColumn {
 public:
  using ArrowColumn::ArrowColumn;
  int64_t Bytes(int64_t row) const override { return static_cast<int64_t>(At(row).size()); }
  Status Append(int64_t row, RecordColumns& out) const override {
    const std::string_view bytes = At(row);
    const auto size = static_cast<int64_t>(bytes.size());
    if (size < env::kMapThresholdBytes) return out.AppendPayload(bytes);
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> copy, arrow::AllocateBuffer(size));
    std::memcpy(copy->mutable_data(), bytes.data(), bytes.size());
    out.SetLargePayload(std::move(copy));
    return Status::OK();
  }

 private:
  std::string_view At(int64_t row) const {
    return array_->type_id() == arrow::Type::BINARY
               ? static_cast<const arrow::BinaryArray&>(*array_).GetView(row)
               : static_cast<const arrow::LargeBinaryArray&>(*array_).GetView(row);
  }
};

// Where the items of a row's list lie in the array of all items.
class Lists {
 public:
  struct Range {
    int64_t begin;
    int64_t end;
  };
  explicit Lists(const arrow::Array& array) : array_(array) {}

  Range At(int64_t row) const {
    return Large() ? Of(static_cast<const arrow::LargeListArray&>(array_), row)
                   : Of(static_cast<const arrow::ListArray&>(array_), row);
  }
  const std::shared_ptr<arrow::Array>& items() const {
    return Large() ? static_cast<const arrow::LargeListArray&>(array_).values()
                   : static_cast<const arrow::ListArray&>(array_).values();
  }

 private:
  bool Large() const { return array_.type_id() == arrow::Type::LARGE_LIST; }
  template <typename List>
  static Range Of(const List& list, int64_t row) {
    return {list.value_offset(row), list.value_offset(row) + list.value_length(row)};
  }

  const arrow::Array& array_;
};

Status CheckNoNullItem(const arrow::Array& items, const Lists::Range& range) {
  if (items.null_count() == 0) return Status::OK();
  for (int64_t i = range.begin; i < range.end; ++i) {
    if (items.IsNull(i)) {
      return Error(ErrorKind::kInvalid, "[{}]: must not be null", i - range.begin);
    }
  }
  return Status::OK();
}

template <typename Array>
class ListValues final : public ArrowColumn {
 public:
  using Item = typename Array::value_type;
  ListValues(Column column, std::shared_ptr<arrow::Array> array)
      : ArrowColumn(std::move(array)), column_(column), lists_(*array_) {}

  int64_t Bytes(int64_t row) const override {
    const Lists::Range range = lists_.At(row);
    return (range.end - range.begin) * static_cast<int64_t>(sizeof(Item));
  }
  Status Append(int64_t row, RecordColumns& out) const override {
    const Lists::Range range = lists_.At(row);
    ARROW_RETURN_NOT_OK(CheckNoNullItem(*lists_.items(), range));
    if (range.begin == range.end) return out.AppendList(column_, std::span<const Item>());
    const Item* values = static_cast<const Array&>(*lists_.items()).raw_values();
    const std::span<const Item> items(values + range.begin, values + range.end);
    if constexpr (std::is_floating_point_v<Item>) {
      for (size_t i = 0; i < items.size(); ++i) {
        if (!std::isfinite(items[i])) {
          return Error(ErrorKind::kInvalid, "[{}]: not a finite number", i);
        }
      }
    }
    return out.AppendList(column_, items);
  }

 private:
  const Column column_;
  const Lists lists_;
};

class RelationshipValues final : public ArrowColumn {
 public:
  explicit RelationshipValues(std::shared_ptr<arrow::Array> array)
      : ArrowColumn(std::move(array)), lists_(*array_) {
    if (lists_.items()->type_id() != arrow::Type::STRUCT) return;
    const auto& items = static_cast<const arrow::StructArray&>(*lists_.items());
    target_ids_.emplace(items.GetFieldByName("target_id"));
    relations_.emplace(items.GetFieldByName("relation"));
    const auto weights = items.GetFieldByName("weight");
    if (weights != nullptr && weights->type_id() == arrow::Type::FLOAT) {
      weights_ = std::static_pointer_cast<arrow::FloatArray>(weights);
    }
  }

  int64_t Bytes(int64_t row) const override {
    constexpr int64_t kPlaceBytes = 16;
    const Lists::Range range = lists_.At(row);
    int64_t bytes = (range.end - range.begin) * kPlaceBytes;
    for (int64_t i = range.begin; i < range.end && target_ids_.has_value(); ++i) {
      for (const Texts* texts : {&*target_ids_, &*relations_}) {
        if (!texts->IsNull(i)) bytes += static_cast<int64_t>(texts->At(i).size());
      }
    }
    return bytes;
  }
  Status Append(int64_t row, RecordColumns& out) const override {
    const Lists::Range range = lists_.At(row);
    ARROW_RETURN_NOT_OK(CheckNoNullItem(*lists_.items(), range));
    ARROW_RETURN_NOT_OK(out.BeginRelationships());
    for (int64_t i = range.begin; i < range.end; ++i) {
      const Status status = AppendItem(i, out);
      if (!status.ok()) {
        return Error(KindOf(status), "[{}]: {}", i - range.begin, status.message());
      }
    }
    return Status::OK();
  }

 private:
  Status AppendItem(int64_t item, RecordColumns& out) const {
    if (target_ids_->IsNull(item)) {
      return Error(ErrorKind::kInvalid, "target_id: must not be null");
    }
    if (relations_->IsNull(item)) {
      return Error(ErrorKind::kInvalid, "relation: must not be null");
    }
    std::optional<float> weight;
    if (weights_ != nullptr && weights_->IsValid(item)) {
      weight = weights_->Value(item);
      if (!std::isfinite(*weight)) {
        return Error(ErrorKind::kInvalid, "weight: not a finite number");
      }
    }
    return out.AppendRelationship(target_ids_->At(item), relations_->At(item), weight);
  }

  const Lists lists_;
  // Unset when the items are of type null, of which none can be appended.
  std::optional<Texts> target_ids_;
  std::optional<Texts> relations_;
  std::shared_ptr<arrow::FloatArray> weights_;
};

}  // namespace

Status CheckArrowType(Column column, const arrow::DataType& type) {
  if (type.id() == arrow::Type::NA) return Status::OK();
  const arrow::DataType& wanted = *RecordSchema()->field(column)->type();
  if (IsText(wanted)) return IsText(type) ? Status::OK() : Expected("string", type);
  if (ItemType(wanted) != nullptr) return CheckListType(wanted, type);
  if (column == kBinaryPayload && type.id() == arrow::Type::BINARY) return Status::OK();
  if (type.id() != wanted.id()) return Expected(wanted.ToString(), type);
  if (column == kCreatedAt &&
      static_cast<const arrow::TimestampType&>(type).unit() != arrow::TimeUnit::MICRO) {
    return Expected(wanted.ToString(), type);
  }
  return Status::OK();
}

std::unique_ptr<ArrowColumn> ArrowColumn::Make(Column column, std::shared_ptr<arrow::Array> array) {
  using Ints = PlainValues<arrow::Int32Array, &RecordColumns::AppendInt32>;
  using LongInts = PlainValues<arrow::Int64Array, &RecordColumns::AppendInt64>;
  using Floats = PlainValues<arrow::FloatArray, &RecordColumns::AppendFloat>;
  using Bools = PlainValues<arrow::BooleanArray, &RecordColumns::AppendBool>;
  if (array->type_id() == arrow::Type::NA) return std::make_unique<NoValues>(std::move(array));
  const arrow::DataType& wanted = *RecordSchema()->field(column)->type();
  if (column == kMetadata) return std::make_unique<MetadataValues>(column, std::move(array));
  if (IsText(wanted)) return std::make_unique<TextValues>(column, std::move(array));
  switch (wanted.id()) {
    case arrow::Type::INT32:
      return std::make_unique<Ints>(column, std::move(array));
    case arrow::Type::INT64:
      return std::make_unique<LongInts>(column, std::move(array));
    case arrow::Type::FLOAT:
      return std::make_unique<Floats>(column, std::move(array));
    case arrow::Type::BOOL:
      return std::make_unique<Bools>(column, std::move(array));
    case arrow::Type::TIMESTAMP:
      return std::make_unique<TimestampValues>(std::move(array));
    case arrow::Type::LARGE_BINARY:
      return std::make_unique<PayloadValues>(std::move(array));
    default:
      break;
  }
  switch (ItemType(wanted)->id()) {
    case arrow::Type::INT32:
      return std::make_unique<ListValues<arrow::Int32Array>>(column, std::move(array));
    case arrow::Type::INT8:
      return std::make_unique<ListValues<arrow::Int8Array>>(column, std::move(array));
    case arrow::Type::FLOAT:
      return std::make_unique<ListValues<arrow::FloatArray>>(column, std::move(array));
    default:
      return std::make_unique<RelationshipValues>(std::move(array));
  }
}

}  // namespace sarissa::rollout
