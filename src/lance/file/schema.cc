#include "lance/file/schema.h"

#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lance/file/logical_type.h"

namespace sarissa::lance {
namespace {

using FieldPtr = std::shared_ptr<arrow::Field>;

// Far above any sensible schema; keeps recursion over a type shallow.
constexpr int kMaxDepth = 64;
constexpr char kPrimaryKeyPositionMetadata[] = "lance-schema:unenforced-primary-key:position";

std::map<std::string, std::string> MetadataOf(const arrow::Field& field) {
  std::map<std::string, std::string> out;
  if (field.metadata() == nullptr) return out;
  for (int64_t i = 0; i < field.metadata()->size(); ++i)
    out[field.metadata()->key(i)] = field.metadata()->value(i);
  return out;
}

std::shared_ptr<const arrow::KeyValueMetadata> ToArrow(
    const std::map<std::string, std::string>& metadata) {
  if (metadata.empty()) return nullptr;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (const auto& [key, value] : metadata) {
    keys.push_back(key);
    values.push_back(value);
  }
  return arrow::key_value_metadata(std::move(keys), std::move(values));
}

Status CheckNamesDiffer(const std::vector<FieldPtr>& siblings, const std::string& path,
                        ErrorKind kind) {
  std::unordered_set<std::string_view> seen;
  for (const FieldPtr& field : siblings) {
    if (seen.insert(field->name()).second) continue;
    return Error(kind, "field '{}{}' appears twice", path, field->name());
  }
  return Status::OK();
}

// Children as the format sees them: none below a leaf.
std::vector<FieldPtr> ChildrenOf(const arrow::Field& field) {
  return IsLeafType(*field.type()) ? std::vector<FieldPtr>() : field.type()->fields();
}

class ArrowWalk {
 public:
  explicit ArrowWalk(int32_t first_id) : next_id_(first_id) {}

  Status Add(const FieldPtr& arrow_field, int32_t parent_id, const std::string& parents,
             int depth) {
    const std::string path = parents + arrow_field->name();
    if (depth > kMaxDepth || next_id_ == std::numeric_limits<int32_t>::max()) {
      return Error(ErrorKind::kUnsupported, "field '{}': the schema is too deep or too large",
                   path);
    }
    auto logical_type = LogicalTypeOf(*arrow_field->type());
    if (!logical_type.ok()) return Annotate(logical_type.status(), fmt::format("field '{}'", path));
    const auto children = ChildrenOf(*arrow_field);
    if (arrow_field->type()->id() == arrow::Type::STRUCT && children.empty()) {
      return Error(ErrorKind::kUnsupported, "field '{}': a struct without fields is not supported",
                   path);
    }
    Field field;
    field.id = next_id_++;
    field.parent_id = parent_id;
    field.name = arrow_field->name();
    field.logical_type = *std::move(logical_type);
    field.nullable = arrow_field->nullable();
    field.is_leaf = IsLeafType(*arrow_field->type());
    field.metadata = MetadataOf(*arrow_field);
    field.arrow_field = arrow_field;
    const int32_t id = field.id;
    fields_.push_back(std::move(field));
    ARROW_RETURN_NOT_OK(CheckNamesDiffer(children, path + ".", ErrorKind::kInvalid));
    for (const FieldPtr& child : children)
      ARROW_RETURN_NOT_OK(Add(child, id, path + ".", depth + 1));
    return Status::OK();
  }

  std::vector<Field> Take() { return std::move(fields_); }

 private:
  int32_t next_id_;
  std::vector<Field> fields_;
};

// Positions of `fields`, depth first. Parents come before their children in the list, so this ends.
struct ProtoTree {
  std::vector<std::vector<size_t>> children;
  std::vector<size_t> roots;
};

Result<ProtoTree> BuildTree(const google::protobuf::RepeatedPtrField<pb::file::Field>& fields) {
  ProtoTree tree;
  tree.children.resize(static_cast<size_t>(fields.size()));
  std::vector<int> depth(static_cast<size_t>(fields.size()), 0);
  std::unordered_map<int32_t, size_t> position;
  for (size_t i = 0; i < depth.size(); ++i) {
    const pb::file::Field& field = fields[static_cast<int>(i)];
    if (field.id() < 0)
      return Error(ErrorKind::kCorrupt, "field '{}' has the id {}", field.name(), field.id());
    if (field.parent_id() < 0) {
      tree.roots.push_back(i);
    } else {
      auto parent = position.find(field.parent_id());
      if (parent == position.end()) {
        return Error(ErrorKind::kCorrupt,
                     "field '{}' (id {}) names the parent {}, which is not listed before it",
                     field.name(), field.id(), field.parent_id());
      }
      tree.children[parent->second].push_back(i);
      depth[i] = depth[parent->second] + 1;
      if (depth[i] > kMaxDepth)
        return Error(ErrorKind::kUnsupported, "field '{}' is too deep", field.name());
    }
    if (!position.emplace(field.id(), i).second) {
      return Error(ErrorKind::kCorrupt, "field '{}' repeats the id {}", field.name(), field.id());
    }
  }
  return tree;
}

void AppendDepthFirst(const ProtoTree& tree, size_t at, std::vector<Field>& from,
                      std::vector<Field>* to) {
  to->push_back(std::move(from[at]));
  for (size_t child : tree.children[at]) AppendDepthFirst(tree, child, from, to);
}

Result<Field> MakeField(const pb::file::Field& proto, const std::vector<FieldPtr>& children) {
  Field field;
  field.id = proto.id();
  field.parent_id = proto.parent_id() < 0 ? -1 : proto.parent_id();
  field.name = proto.name();
  field.logical_type = proto.logical_type();
  field.nullable = proto.nullable();
  for (const auto& [key, value] : proto.metadata()) field.metadata[key] = value;
  if (proto.unenforced_primary_key()) field.metadata.emplace(kPrimaryKeyMetadata, "true");
  auto type = ArrowTypeOf(field.logical_type, children);
  if (!type.ok())
    return Annotate(type.status(), fmt::format("field '{}' (id {})", field.name, field.id));
  ARROW_RETURN_NOT_OK(CheckNamesDiffer(children, field.name + ".", ErrorKind::kCorrupt));
  field.is_leaf = IsLeafType(**type);
  field.arrow_field = arrow::field(field.name, *type, field.nullable, ToArrow(field.metadata));
  return field;
}

bool IsPrimaryKey(const Field& field) {
  auto found = field.metadata.find(kPrimaryKeyMetadata);
  return found != field.metadata.end() && (found->second == "true" || found->second == "1");
}

// Keys without a position come after those with one, in column order.
int64_t PrimaryKeyPosition(const Field& field) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  auto found = field.metadata.find(kPrimaryKeyPositionMetadata);
  if (found == field.metadata.end()) return kLast;
  const std::string& text = found->second;
  int64_t position = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), position);
  return error == std::errc() && end == text.data() + text.size() ? position : kLast;
}

std::vector<FieldPtr> TopLevel(const std::vector<Field>& fields) {
  std::vector<FieldPtr> out;
  for (const Field& field : fields) {
    if (field.parent_id < 0) out.push_back(field.arrow_field);
  }
  return out;
}

// Index in `fields` of each top-level field, and the size as a last entry.
std::vector<size_t> TopLevelStarts(const std::vector<Field>& fields) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].parent_id < 0) starts.push_back(i);
  }
  starts.push_back(fields.size());
  return starts;
}

}  // namespace

Result<Schema> Schema::FromArrow(const arrow::Schema& schema, int32_t first_id) {
  ARROW_RETURN_NOT_OK(CheckNamesDiffer(schema.fields(), "", ErrorKind::kInvalid));
  ArrowWalk walk(first_id);
  for (const FieldPtr& field : schema.fields()) ARROW_RETURN_NOT_OK(walk.Add(field, -1, "", 0));
  Schema out;
  out.fields_ = walk.Take();
  out.arrow_schema_ = arrow::schema(schema.fields(), schema.metadata());
  return out;
}

Result<Schema> Schema::FromProto(const google::protobuf::RepeatedPtrField<pb::file::Field>& fields,
                                 const google::protobuf::Map<std::string, std::string>& metadata) {
  ARROW_ASSIGN_OR_RAISE(ProtoTree tree, BuildTree(fields));
  // Children stand behind their parents: going backwards, every child is made before its parent
  // needs it.
  std::vector<Field> made(tree.children.size());
  for (size_t i = made.size(); i-- > 0;) {
    std::vector<FieldPtr> children;
    for (size_t child : tree.children[i]) children.push_back(made[child].arrow_field);
    ARROW_ASSIGN_OR_RAISE(made[i], MakeField(fields[static_cast<int>(i)], children));
  }
  Schema out;
  for (size_t root : tree.roots) AppendDepthFirst(tree, root, made, &out.fields_);
  const std::map<std::string, std::string> sorted(metadata.begin(), metadata.end());
  out.arrow_schema_ = arrow::schema(TopLevel(out.fields_), ToArrow(sorted));
  ARROW_RETURN_NOT_OK(CheckNamesDiffer(out.arrow_schema_->fields(), "", ErrorKind::kCorrupt));
  return out;
}

void Schema::ToProto(google::protobuf::RepeatedPtrField<pb::file::Field>* fields) const {
  for (const Field& field : fields_) {
    pb::file::Field* proto = fields->Add();
    proto->set_name(field.name);
    proto->set_id(field.id);
    proto->set_parent_id(field.parent_id);
    proto->set_logical_type(field.logical_type);
    proto->set_nullable(field.nullable);
    proto->set_encoding(LegacyEncodingOf(*field.arrow_field->type()));
    if (field.arrow_field->type()->id() == arrow::Type::DICTIONARY) proto->mutable_dictionary();
    for (const auto& [key, value] : field.metadata) (*proto->mutable_metadata())[key] = value;
    proto->set_unenforced_primary_key(IsPrimaryKey(field));
  }
}

Result<Schema> Schema::WithAppended(const std::shared_ptr<arrow::Field>& field) const {
  auto siblings = TopLevel(fields_);
  siblings.push_back(field);
  ARROW_RETURN_NOT_OK(CheckNamesDiffer(siblings, "", ErrorKind::kInvalid));
  ArrowWalk walk(max_field_id() + 1);
  ARROW_RETURN_NOT_OK(walk.Add(field, -1, "", 0));
  Schema out = *this;
  for (Field& added : walk.Take()) out.fields_.push_back(std::move(added));
  out.arrow_schema_ =
      arrow::schema(std::move(siblings), arrow_schema_ ? arrow_schema_->metadata() : nullptr);
  return out;
}

Result<Schema> Schema::Select(const std::vector<std::string>& names) const {
  const auto starts = TopLevelStarts(fields_);
  std::unordered_map<std::string_view, size_t> index;
  for (size_t i = 0; i + 1 < starts.size(); ++i) index.emplace(fields_[starts[i]].name, i);
  Schema out;
  for (const std::string& name : names) {
    auto found = index.find(name);
    if (found == index.end()) return Error(ErrorKind::kInvalid, "there is no column '{}'", name);
    for (size_t i = starts[found->second]; i < starts[found->second + 1]; ++i)
      out.fields_.push_back(fields_[i]);
  }
  auto selected = TopLevel(out.fields_);
  ARROW_RETURN_NOT_OK(CheckNamesDiffer(selected, "", ErrorKind::kInvalid));
  out.arrow_schema_ =
      arrow::schema(std::move(selected), arrow_schema_ ? arrow_schema_->metadata() : nullptr);
  return out;
}

Schema Schema::WithNullable(const std::vector<std::string>& not_null) const {
  Schema out = *this;
  for (Field& field : out.fields_) {
    if (field.parent_id >= 0) continue;
    field.nullable = std::find(not_null.begin(), not_null.end(), field.name) == not_null.end();
    field.arrow_field = field.arrow_field->WithNullable(field.nullable);
  }
  out.arrow_schema_ =
      arrow::schema(TopLevel(out.fields_), arrow_schema_ ? arrow_schema_->metadata() : nullptr);
  return out;
}

int32_t Schema::max_field_id() const {
  int32_t max = -1;
  for (const Field& field : fields_) max = std::max(max, field.id);
  return max;
}

std::vector<int32_t> Schema::LeafIds(int index) const {
  const auto starts = TopLevelStarts(fields_);
  SARISSA_CHECK(index >= 0 && static_cast<size_t>(index) + 1 < starts.size(), "no column {}",
                index);
  std::vector<int32_t> ids;
  for (size_t i = starts[index]; i < starts[index + 1]; ++i) {
    if (fields_[i].is_leaf) ids.push_back(fields_[i].id);
  }
  return ids;
}

std::vector<int32_t> Schema::AllLeafIds() const {
  std::vector<int32_t> ids;
  for (const Field& field : fields_) {
    if (field.is_leaf) ids.push_back(field.id);
  }
  return ids;
}

std::vector<std::string> Schema::PrimaryKey() const {
  std::multimap<int64_t, std::string> by_position;
  for (const Field& field : fields_) {
    if (field.parent_id < 0 && IsPrimaryKey(field)) {
      by_position.emplace(PrimaryKeyPosition(field), field.name);
    }
  }
  std::vector<std::string> names;
  for (const auto& [position, name] : by_position) names.push_back(name);
  return names;
}

}  // namespace sarissa::lance
