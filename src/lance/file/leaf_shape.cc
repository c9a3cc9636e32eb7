#include "lance/file/leaf_shape.h"

#include <arrow/type_traits.h>
#include <arrow/util/checked_cast.h>

namespace sarissa::lance {
namespace {

namespace pbe = pb::encodings;
using arrow::internal::checked_cast;

// Deeper types would overflow the level numbers long after they stopped making sense.
constexpr int kMaxDepth = 64;

Result<ValueShape> ValueShapeOf(const arrow::DataType& type) {
  ValueShape shape;
  switch (type.id()) {
    case arrow::Type::NA:
      shape.kind = ValueShape::Kind::kNull;
      return shape;
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      shape.kind = ValueShape::Kind::kVariable;
      return shape;
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      shape.kind = ValueShape::Kind::kVariable;
      shape.large_offsets = true;
      return shape;
    case arrow::Type::FIXED_SIZE_LIST: {
      const auto& list = checked_cast<const arrow::FixedSizeListType&>(type);
      ARROW_ASSIGN_OR_RAISE(shape, ValueShapeOf(*list.value_type()));
      if (shape.kind != ValueShape::Kind::kFixed || shape.items_per_value != 1 ||
          list.list_size() <= 0) {
        break;
      }
      shape.items_per_value = static_cast<uint64_t>(list.list_size());
      return shape;
    }
    default:
      break;
  }
  if (!arrow::is_fixed_width(type.id()) || arrow::is_nested(type.id()) ||
      type.id() == arrow::Type::DICTIONARY || type.bit_width() <= 0) {
    return Error(ErrorKind::kUnsupported, "columns of type {} are not read here", type.ToString());
  }
  shape.bits_per_item = static_cast<uint64_t>(type.bit_width());
  return shape;
}

// Walks to the leaves; `is_list` holds the layers so far, outermost first.
Status Collect(const arrow::Field& field, std::vector<bool>* is_list,
               std::vector<LeafShape>* leaves) {
  const arrow::DataType& type = *field.type();
  if (is_list->size() > kMaxDepth) {
    return Error(ErrorKind::kUnsupported, "{}: nested too deeply", field.name());
  }
  switch (type.id()) {
    case arrow::Type::STRUCT:
      if (type.num_fields() == 0) {
        return Error(ErrorKind::kUnsupported, "{}: a struct without fields", field.name());
      }
      [[fallthrough]];
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::MAP:
      is_list->push_back(type.id() != arrow::Type::STRUCT);
      for (const auto& child : type.fields()) {
        ARROW_RETURN_NOT_OK(Collect(*child, is_list, leaves));
      }
      is_list->pop_back();
      return Status::OK();
    default:
      break;
  }
  LeafShape leaf;
  leaf.type = field.type();
  leaf.dictionary = type.id() == arrow::Type::DICTIONARY;
  const auto values = ValueShapeOf(
      leaf.dictionary ? *checked_cast<const arrow::DictionaryType&>(type).value_type() : type);
  if (!values.ok()) return Annotate(values.status(), field.name());
  leaf.values = *values;
  uint16_t level = 0;
  std::vector<LevelLayer> layers{LevelLayer{.null_level = ++level}};
  for (auto it = is_list->rbegin(); it != is_list->rend(); ++it) {
    LevelLayer layer{.is_list = *it, .null_level = ++level};
    if (layer.is_list) {
      layer.empty_level = ++level;
      layer.repetition = ++leaf.max_rep;
    }
    layers.push_back(layer);
  }
  leaf.max_def = level;
  // An entry has a slot in a layer unless something from the next list outwards is null or empty.
  uint16_t bound = level;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    layer->max_slot_def = bound;
    if (layer->is_list) bound = static_cast<uint16_t>(layer->null_level - 1);
  }
  leaf.layers = std::move(layers);
  leaves->push_back(std::move(leaf));
  return Status::OK();
}

}  // namespace

Result<std::vector<LeafShape>> LeafShapesOf(const arrow::Field& column) {
  std::vector<LeafShape> leaves;
  std::vector<bool> is_list;
  ARROW_RETURN_NOT_OK(Collect(column, &is_list, &leaves));
  return leaves;
}

Result<PageLevels> PageLevels::Make(const google::protobuf::RepeatedField<int>& layers,
                                    const LeafShape& shape) {
  if (static_cast<size_t>(layers.size()) != shape.layers.size()) {
    return Error(ErrorKind::kCorrupt, "the page has {} layers, the field has {}", layers.size(),
                 shape.layers.size());
  }
  PageLevels levels;
  levels.canonical_.push_back(0);
  bool below_list = true;
  for (int i = 0; i < layers.size(); ++i) {
    const LevelLayer& layer = shape.layers[static_cast<size_t>(i)];
    const int declared = layers[i];
    const bool is_item = declared == pbe::ALL_VALID_ITEM || declared == pbe::NULLABLE_ITEM;
    const bool is_list = declared == pbe::ALL_VALID_LIST || declared == pbe::NULLABLE_LIST ||
                         declared == pbe::EMPTYABLE_LIST || declared == pbe::NULL_AND_EMPTY_LIST;
    if (layer.is_list ? !is_list : !is_item) {
      return Error(ErrorKind::kCorrupt, "layer {} of the page is {}, which the field is not", i,
                   declared);
    }
    if (layer.is_list) {
      if (below_list) levels.max_slot_def_ = levels.max_def();
      below_list = false;
      ++levels.max_rep_;
    }
    if (declared == pbe::NULLABLE_ITEM || declared == pbe::NULLABLE_LIST ||
        declared == pbe::NULL_AND_EMPTY_LIST) {
      levels.canonical_.push_back(layer.null_level);
    }
    if (declared == pbe::EMPTYABLE_LIST || declared == pbe::NULL_AND_EMPTY_LIST) {
      levels.canonical_.push_back(layer.empty_level);
    }
  }
  if (below_list) levels.max_slot_def_ = levels.max_def();
  return levels;
}

}  // namespace sarissa::lance
