#include "lance/file/logical_type.h"

#include <arrow/type_traits.h>

#include <charconv>
#include <optional>
#include <utility>

namespace sarissa::lance {
namespace {

using arrow::Type;
using TypePtr = std::shared_ptr<arrow::DataType>;
using FieldVector = std::vector<std::shared_ptr<arrow::Field>>;

const std::vector<std::pair<std::string_view, TypePtr>>& PlainTypes() {
  static const auto* types = new std::vector<std::pair<std::string_view, TypePtr>>{
      {"null", arrow::null()},
      {"bool", arrow::boolean()},
      {"int8", arrow::int8()},
      {"uint8", arrow::uint8()},
      {"int16", arrow::int16()},
      {"uint16", arrow::uint16()},
      {"int32", arrow::int32()},
      {"uint32", arrow::uint32()},
      {"int64", arrow::int64()},
      {"uint64", arrow::uint64()},
      {"halffloat", arrow::float16()},
      {"float", arrow::float32()},
      {"double", arrow::float64()},
      {"string", arrow::utf8()},
      {"large_string", arrow::large_utf8()},
      {"binary", arrow::binary()},
      {"large_binary", arrow::large_binary()},
      {"date32:day", arrow::date32()},
      {"date64:ms", arrow::date64()},
  };
  return *types;
}

std::string_view UnitName(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return "s";
    case arrow::TimeUnit::MILLI:
      return "ms";
    case arrow::TimeUnit::MICRO:
      return "us";
    case arrow::TimeUnit::NANO:
      return "ns";
  }
  return "?";
}

std::optional<arrow::TimeUnit::type> ParseUnit(std::string_view text) {
  for (arrow::TimeUnit::type unit : arrow::TimeUnit::values()) {
    if (UnitName(unit) == text) return unit;
  }
  return std::nullopt;
}

std::optional<int32_t> ParseInt(std::string_view text) {
  int32_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Cuts "a:b" at the last ':' into "a" and "b".
std::optional<std::pair<std::string_view, std::string_view>> CutLast(std::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return std::pair(text.substr(0, colon), text.substr(colon + 1));
}

Status Unsupported(std::string_view logical_type) {
  return Error(ErrorKind::kUnsupported, "type '{}' is not supported", logical_type);
}

bool IsFixedWidthItem(const arrow::DataType& type) {
  return arrow::is_primitive(type.id()) || arrow::is_decimal(type.id());
}

Result<TypePtr> ParseTimestamp(std::string_view whole, std::string_view rest) {
  size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return Unsupported(whole);
  auto unit = ParseUnit(rest.substr(0, colon));
  if (!unit) return Unsupported(whole);
  std::string_view zone = rest.substr(colon + 1);
  return arrow::timestamp(*unit, zone == "-" ? std::string() : std::string(zone));
}

Result<TypePtr> ParseTime(std::string_view whole, std::string_view kind, std::string_view rest) {
  auto unit = ParseUnit(rest);
  if (!unit) return Unsupported(whole);
  const bool coarse = *unit == arrow::TimeUnit::SECOND || *unit == arrow::TimeUnit::MILLI;
  if (kind == "duration") return arrow::duration(*unit);
  if (kind == "time32" && coarse) return arrow::time32(*unit);
  if (kind == "time64" && !coarse) return arrow::time64(*unit);
  return Unsupported(whole);
}

Result<TypePtr> ParseDecimal(std::string_view whole, std::string_view rest) {
  auto scale_cut = CutLast(rest);
  if (!scale_cut) return Unsupported(whole);
  auto precision_cut = CutLast(scale_cut->first);
  if (!precision_cut) return Unsupported(whole);
  auto scale = ParseInt(scale_cut->second);
  auto precision = ParseInt(precision_cut->second);
  if (!scale || !precision) return Unsupported(whole);
  if (precision_cut->first == "128") return arrow::Decimal128Type::Make(*precision, *scale);
  if (precision_cut->first == "256") return arrow::Decimal256Type::Make(*precision, *scale);
  return Unsupported(whole);
}

Result<TypePtr> ParseLeaf(std::string_view text);

Result<TypePtr> ParseFixedSizeList(std::string_view whole, std::string_view rest) {
  auto cut = CutLast(rest);
  auto size = cut ? ParseInt(cut->second) : std::nullopt;
  if (!size || *size <= 0 || cut->first.starts_with("fixed_size_list:")) return Unsupported(whole);
  ARROW_ASSIGN_OR_RAISE(TypePtr item, ParseLeaf(cut->first));
  if (!IsFixedWidthItem(*item)) return Unsupported(whole);
  return arrow::fixed_size_list(std::move(item), *size);
}

Result<TypePtr> ParseDictionary(std::string_view whole, std::string_view rest) {
  auto ordered_cut = CutLast(rest);
  auto index_cut = ordered_cut ? CutLast(ordered_cut->first) : std::nullopt;
  if (!index_cut || index_cut->first.starts_with("dict:")) return Unsupported(whole);
  ARROW_ASSIGN_OR_RAISE(TypePtr index, ParseLeaf(index_cut->second));
  ARROW_ASSIGN_OR_RAISE(TypePtr value, ParseLeaf(index_cut->first));
  if (!arrow::is_integer(index->id())) return Unsupported(whole);
  return arrow::dictionary(std::move(index), std::move(value), ordered_cut->second == "true");
}

Result<TypePtr> ParseLeaf(std::string_view text) {
  for (const auto& [name, type] : PlainTypes()) {
    if (name == text) return type;
  }
  size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Unsupported(text);
  std::string_view kind = text.substr(0, colon);
  std::string_view rest = text.substr(colon + 1);
  if (kind == "timestamp") return ParseTimestamp(text, rest);
  if (kind == "time32" || kind == "time64" || kind == "duration")
    return ParseTime(text, kind, rest);
  if (kind == "decimal") return ParseDecimal(text, rest);
  if (kind == "fixed_size_list") return ParseFixedSizeList(text, rest);
  if (kind == "dict") return ParseDictionary(text, rest);
  if (kind == "fixed_size_binary") {
    auto width = ParseInt(rest);
    if (!width || *width <= 0) return Unsupported(text);
    return arrow::fixed_size_binary(*width);
  }
  return Unsupported(text);
}

Result<std::string> ListName(std::string_view name, const arrow::Field& item) {
  return std::string(name) + (item.type()->id() == Type::STRUCT ? ".struct" : "");
}

}  // namespace

bool IsLeafType(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::STRUCT:
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::MAP:
      return false;
    default:
      return true;
  }
}

Result<std::string> LogicalTypeOf(const arrow::DataType& type) {
  for (const auto& [name, plain] : PlainTypes()) {
    if (plain->id() == type.id()) return std::string(name);
  }
  switch (type.id()) {
    case Type::TIMESTAMP: {
      const auto& timestamp = static_cast<const arrow::TimestampType&>(type);
      const std::string& zone = timestamp.timezone();
      return fmt::format("timestamp:{}:{}", UnitName(timestamp.unit()), zone.empty() ? "-" : zone);
    }
    case Type::TIME32:
      return fmt::format("time32:{}", UnitName(static_cast<const arrow::TimeType&>(type).unit()));
    case Type::TIME64:
      return fmt::format("time64:{}", UnitName(static_cast<const arrow::TimeType&>(type).unit()));
    case Type::DURATION:
      return fmt::format("duration:{}",
                         UnitName(static_cast<const arrow::DurationType&>(type).unit()));
    case Type::DECIMAL128:
    case Type::DECIMAL256: {
      const auto& decimal = static_cast<const arrow::DecimalType&>(type);
      return fmt::format("decimal:{}:{}:{}", decimal.bit_width(), decimal.precision(),
                         decimal.scale());
    }
    case Type::FIXED_SIZE_BINARY: {
      const int width = static_cast<const arrow::FixedSizeBinaryType&>(type).byte_width();
      if (width <= 0) break;
      return fmt::format("fixed_size_binary:{}", width);
    }
    case Type::FIXED_SIZE_LIST: {
      const auto& list = static_cast<const arrow::FixedSizeListType&>(type);
      if (list.list_size() <= 0 || !IsFixedWidthItem(*list.value_type())) break;
      ARROW_ASSIGN_OR_RAISE(std::string item, LogicalTypeOf(*list.value_type()));
      return fmt::format("fixed_size_list:{}:{}", item, list.list_size());
    }
    case Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryType&>(type);
      if (arrow::is_nested(dictionary.value_type()->id()) ||
          dictionary.value_type()->id() == Type::DICTIONARY)
        break;
      ARROW_ASSIGN_OR_RAISE(std::string value, LogicalTypeOf(*dictionary.value_type()));
      ARROW_ASSIGN_OR_RAISE(std::string index, LogicalTypeOf(*dictionary.index_type()));
      return fmt::format("dict:{}:{}:{}", value, index, dictionary.ordered());
    }
    case Type::LIST:
      return ListName("list", *type.field(0));
    case Type::LARGE_LIST:
      return ListName("large_list", *type.field(0));
    case Type::STRUCT:
      return "struct";
    case Type::MAP:
      return "map";
    default:
      break;
  }
  return Error(ErrorKind::kUnsupported, "type {} is not supported", type.ToString());
}

Result<TypePtr> ArrowTypeOf(std::string_view logical_type, const FieldVector& children) {
  if (logical_type == "struct") {
    if (children.empty())
      return Error(ErrorKind::kUnsupported, "a struct without fields is not supported");
    return arrow::struct_(children);
  }
  const bool list = logical_type == "list" || logical_type == "list.struct";
  const bool large_list = logical_type == "large_list" || logical_type == "large_list.struct";
  if (list || large_list || logical_type == "map") {
    if (children.size() != 1) {
      return Error(ErrorKind::kCorrupt, "type '{}' has {} children instead of 1", logical_type,
                   children.size());
    }
    if (list) return arrow::list(children[0]);
    if (large_list) return arrow::large_list(children[0]);
    const arrow::DataType& entries = *children[0]->type();
    if (entries.id() != Type::STRUCT || entries.num_fields() != 2) {
      return Error(ErrorKind::kCorrupt, "the entries of a map are {} instead of a struct of two",
                   entries.ToString());
    }
    // The entries and keys of an Arrow map are never null, whatever the file declares.
    auto key = entries.field(0)->WithNullable(false);
    auto made = arrow::MapType::Make(
        children[0]->WithType(arrow::struct_({key, entries.field(1)}))->WithNullable(false));
    if (!made.ok()) return WithKind(made.status(), ErrorKind::kCorrupt);
    return made;
  }
  if (!children.empty()) {
    return Error(ErrorKind::kCorrupt, "type '{}' has {} children", logical_type, children.size());
  }
  return ParseLeaf(logical_type);
}

int LegacyEncodingOf(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::NA:
    case Type::STRUCT:
      return 0;
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::BINARY:
    case Type::LARGE_BINARY:
      return 2;
    case Type::DICTIONARY:
      return 3;
    default:
      return 1;
  }
}

}  // namespace sarissa::lance
