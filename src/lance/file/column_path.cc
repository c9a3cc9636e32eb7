#include "lance/file/column_path.h"

#include <utility>

#include "lance/file/logical_type.h"

namespace sarissa::lance {
namespace {

void NumberLevels(ColumnPath* path) {
  for (auto layer = path->layers.rbegin(); layer != path->layers.rend(); ++layer) {
    if (layer->is_list) {
      layer->null_level = ++path->max_def;
      layer->empty_level = ++path->max_def;
      layer->repetition = ++path->max_rep;
      path->declared.push_back(pb::encodings::NULL_AND_EMPTY_LIST);
    } else if (layer->can_be_null) {
      layer->null_level = ++path->max_def;
      path->declared.push_back(pb::encodings::NULLABLE_ITEM);
    } else {
      path->declared.push_back(pb::encodings::ALL_VALID_ITEM);
    }
  }
  // Below a list, only what that list holds has slots: everything up to the level before the list's
  // own.
  uint16_t max_slot_def = path->max_def;
  for (PathLayer& layer : path->layers) {
    layer.max_slot_def = max_slot_def;
    if (layer.is_list) max_slot_def = static_cast<uint16_t>(layer.null_level - 1);
  }
  path->max_visible_def = max_slot_def;
}

void Descend(const arrow::Field& field, const std::string& parents, ColumnPath path,
             std::vector<ColumnPath>* out) {
  const arrow::DataType& type = *field.type();
  PathLayer layer;
  layer.name = parents + field.name();
  layer.nullable = field.nullable() || type.id() == arrow::Type::NA;
  layer.is_list = !IsLeafType(type) && type.id() != arrow::Type::STRUCT;
  const bool null_with_parent =
      !path.layers.empty() && !path.layers.back().is_list && path.layers.back().can_be_null;
  layer.can_be_null = layer.nullable || null_with_parent;
  if (IsLeafType(type)) {
    path.layers.push_back(std::move(layer));
    path.leaf_type = field.type();
    NumberLevels(&path);
    out->push_back(std::move(path));
    return;
  }
  const std::string prefix = layer.name + ".";
  path.layers.push_back(std::move(layer));
  for (int child = 0; child < type.num_fields(); ++child) {
    path.layers.back().child = child;
    Descend(*type.field(child), prefix, path, out);
  }
}

}  // namespace

std::vector<ColumnPath> LeafPathsOf(const arrow::Field& column) {
  std::vector<ColumnPath> out;
  Descend(column, "", ColumnPath(), &out);
  return out;
}

}  // namespace sarissa::lance
