#include "rollout/value_writer.h"

#include <arrow/array/array_nested.h>
#include <arrow/array/array_primitive.h>
#include <arrow/type.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <utility>

#include "rollout/float_text.h"
#include "rollout/json_canonical.h"
#include "rollout/json_escape.h"
#include "rollout/text_column.h"
#include "rollout/timestamp.h"

namespace sarissa::rollout {
namespace {

template <typename Int>
void AppendInt(Int value, std::string& out) {
  std::array<char, 24> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  out.append(text.data(), static_cast<size_t>(written.ptr - text.data()));
}

void AppendItem(float value, std::string& out) {
  AppendFloat32(value, out);
}
void AppendItem(int8_t value, std::string& out) {
  AppendInt(static_cast<int>(value), out);
}
void AppendItem(int32_t value, std::string& out) {
  AppendInt(value, out);
}
void AppendItem(int64_t value, std::string& out) {
  AppendInt(value, out);
}
void AppendItem(bool value, std::string& out) {
  out.append(value ? "true" : "false");
}

class TextWriter final : public ValueWriter {
 public:
  explicit TextWriter(TextColumn column) : column_(std::move(column)) {}
  bool Has(int64_t row) const override { return !column_.IsNull(row); }
  Status Write(int64_t row, std::string& out) const override {
    ARROW_ASSIGN_OR_RAISE(const std::string_view text, column_.At(row));
    AppendJsonString(text, out);
    return Status::OK();
  }

 private:
  TextColumn column_;
};

class MetadataWriter final : public ValueWriter {
 public:
  explicit MetadataWriter(TextColumn column) : column_(std::move(column)) {}
  bool Has(int64_t row) const override { return !column_.IsNull(row); }
  Status Write(int64_t row, std::string& out) const override {
    ARROW_ASSIGN_OR_RAISE(const std::string_view text, column_.At(row));
    if (IsJson(text)) {
      out.append(text);
    } else {
      AppendJsonString(text, out);
    }
    return Status::OK();
  }

 private:
  TextColumn column_;
};

template <typename Array>
class NumberWriter final : public ValueWriter {
 public:
  explicit NumberWriter(const std::shared_ptr<arrow::Array>& array)
      : array_(std::static_pointer_cast<Array>(array)) {}
  bool Has(int64_t row) const override { return array_->IsValid(row); }
  Status Write(int64_t row, std::string& out) const override {
    AppendItem(array_->Value(row), out);
    return Status::OK();
  }

 private:
  std::shared_ptr<Array> array_;
};

class TimestampWriter final : public ValueWriter {
 public:
  explicit TimestampWriter(const std::shared_ptr<arrow::Array>& array)
      : array_(std::static_pointer_cast<arrow::TimestampArray>(array)) {}
  bool Has(int64_t row) const override { return array_->IsValid(row); }
  Status Write(int64_t row, std::string& out) const override {
    out.push_back('"');
    AppendTimestamp(array_->Value(row), out);
    out.push_back('"');
    return Status::OK();
  }

 private:
  std::shared_ptr<arrow::TimestampArray> array_;
};

template <typename Array>
class NumberListWriter final : public ValueWriter {
 public:
  explicit NumberListWriter(const std::shared_ptr<arrow::Array>& array)
      : lists_(std::static_pointer_cast<arrow::ListArray>(array)),
        items_(std::static_pointer_cast<Array>(lists_->values())) {}
  bool Has(int64_t row) const override { return lists_->IsValid(row); }
  Status Write(int64_t row, std::string& out) const override {
    const int64_t begin = lists_->value_offset(row);
    const int64_t end = begin + lists_->value_length(row);
    out.push_back('[');
    for (int64_t i = begin; i < end; ++i) {
      if (i != begin) out.push_back(',');
      if (items_->IsNull(i)) {
        out.append("null");
      } else {
        AppendItem(items_->Value(i), out);
      }
    }
    out.push_back(']');
    return Status::OK();
  }

 private:
  std::shared_ptr<arrow::ListArray> lists_;
  std::shared_ptr<Array> items_;
};

class RelationshipsWriter final : public ValueWriter {
 public:
  static Result<std::unique_ptr<ValueWriter>> Make(const std::shared_ptr<arrow::Array>& array) {
    auto lists = std::static_pointer_cast<arrow::ListArray>(array);
    const auto* items = static_cast<const arrow::StructArray*>(lists->values().get());
    const auto target = items->GetFieldByName("target_id");
    const auto relation = items->GetFieldByName("relation");
    const auto weight = items->GetFieldByName("weight");
    if (target == nullptr || relation == nullptr || weight == nullptr ||
        weight->type_id() != arrow::Type::FLOAT) {
      return Error(ErrorKind::kUnsupported, "relationships of type {}", array->type()->ToString());
    }
    ARROW_ASSIGN_OR_RAISE(auto targets, TextColumn::Make(target));
    ARROW_ASSIGN_OR_RAISE(auto relations, TextColumn::Make(relation));
    return std::unique_ptr<ValueWriter>(
        new RelationshipsWriter(std::move(lists), std::move(targets), std::move(relations),
                                std::static_pointer_cast<arrow::FloatArray>(weight)));
  }
  bool Has(int64_t row) const override {
    return lists_->IsValid(row) && lists_->value_length(row) > 0;
  }
  Status Write(int64_t row, std::string& out) const override {
    const int64_t begin = lists_->value_offset(row);
    const int64_t end = begin + lists_->value_length(row);
    out.push_back('[');
    for (int64_t i = begin; i < end; ++i) {
      if (i != begin) out.push_back(',');
      out.append("{\"target_id\":");
      ARROW_RETURN_NOT_OK(WriteText(targets_, i, out));
      out.append(",\"relation\":");
      ARROW_RETURN_NOT_OK(WriteText(relations_, i, out));
      if (weights_->IsValid(i)) {
        out.append(",\"weight\":");
        AppendFloat32(weights_->Value(i), out);
      }
      out.push_back('}');
    }
    out.push_back(']');
    return Status::OK();
  }

 private:
  RelationshipsWriter(std::shared_ptr<arrow::ListArray> lists, TextColumn targets,
                      TextColumn relations, std::shared_ptr<arrow::FloatArray> weights)
      : lists_(std::move(lists)),
        targets_(std::move(targets)),
        relations_(std::move(relations)),
        weights_(std::move(weights)) {}

  static Status WriteText(const TextColumn& column, int64_t row, std::string& out) {
    if (column.IsNull(row)) {
      out.append("null");
      return Status::OK();
    }
    ARROW_ASSIGN_OR_RAISE(const std::string_view text, column.At(row));
    AppendJsonString(text, out);
    return Status::OK();
  }

  std::shared_ptr<arrow::ListArray> lists_;
  TextColumn targets_;
  TextColumn relations_;
  std::shared_ptr<arrow::FloatArray> weights_;
};

bool IsTextColumn(Column column) {
  const arrow::Type::type id = RecordSchema()->field(column)->type()->id();
  return id == arrow::Type::STRING || id == arrow::Type::LARGE_STRING ||
         id == arrow::Type::DICTIONARY;
}

Result<std::unique_ptr<ValueWriter>> MakeTextWriter(Column column,
                                                    const std::shared_ptr<arrow::Array>& array) {
  ARROW_ASSIGN_OR_RAISE(auto text, TextColumn::Make(array));
  if (column == kMetadata) return std::make_unique<MetadataWriter>(std::move(text));
  return std::make_unique<TextWriter>(std::move(text));
}

Result<std::unique_ptr<ValueWriter>> MakeListWriter(const std::shared_ptr<arrow::Array>& array) {
  switch (static_cast<const arrow::ListArray&>(*array).value_type()->id()) {
    case arrow::Type::INT8:
      return std::make_unique<NumberListWriter<arrow::Int8Array>>(array);
    case arrow::Type::INT32:
      return std::make_unique<NumberListWriter<arrow::Int32Array>>(array);
    case arrow::Type::FLOAT:
      return std::make_unique<NumberListWriter<arrow::FloatArray>>(array);
    default:
      return RelationshipsWriter::Make(array);
  }
}

// Same storage; names of list children do not matter.
bool HasExpectedType(Column column, const arrow::DataType& type) {
  const auto& expected = *RecordSchema()->field(column)->type();
  if (type.id() != expected.id()) return false;
  if (type.id() == arrow::Type::TIMESTAMP) {
    return static_cast<const arrow::TimestampType&>(type).unit() == arrow::TimeUnit::MICRO;
  }
  if (type.id() != arrow::Type::LIST) return true;
  return static_cast<const arrow::ListType&>(type).value_type()->id() ==
         static_cast<const arrow::ListType&>(expected).value_type()->id();
}

}  // namespace

Result<std::unique_ptr<ValueWriter>> MakeValueWriter(Column column,
                                                     const std::shared_ptr<arrow::Array>& array) {
  if (IsTextColumn(column)) return MakeTextWriter(column, array);
  if (!HasExpectedType(column, *array->type())) {
    return Error(ErrorKind::kUnsupported, "type {}", array->type()->ToString());
  }
  switch (array->type_id()) {
    case arrow::Type::INT32:
      return std::make_unique<NumberWriter<arrow::Int32Array>>(array);
    case arrow::Type::INT64:
      return std::make_unique<NumberWriter<arrow::Int64Array>>(array);
    case arrow::Type::FLOAT:
      return std::make_unique<NumberWriter<arrow::FloatArray>>(array);
    case arrow::Type::BOOL:
      return std::make_unique<NumberWriter<arrow::BooleanArray>>(array);
    case arrow::Type::TIMESTAMP:
      return std::make_unique<TimestampWriter>(array);
    case arrow::Type::LIST:
      return MakeListWriter(array);
    default:
      return Error(ErrorKind::kUnsupported, "type {}", array->type()->ToString());
  }
}

}  // namespace sarissa::rollout
