// A Lance schema: Arrow fields with the format's ids. Immutable, copyable, thread safe.
//
// Fields are listed depth first, parents before children; columns exist only for leaves (2.1 and
// later). A fixed_size_list of a primitive and a dictionary are leaves; a map has a struct child
// `entries`.
#pragma once

#include <arrow/type.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "proto/lance_file.pb.h"

namespace sarissa::lance {

// Field metadata key that marks the primary key ("true"), as pylance and the original write it.
inline constexpr char kPrimaryKeyMetadata[] = "lance-schema:unenforced-primary-key";

struct Field {
  int32_t id = 0;
  int32_t parent_id = -1;  // -1 for top level
  std::string name;
  std::string logical_type;  // "string", "list.struct", "dict:string:int8:false" ...
  bool nullable = true;
  bool is_leaf = true;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<arrow::Field> arrow_field;  // with children and metadata
};

class Schema {
 public:
  Schema() = default;
  // Gives ids depth first from `first_id`. kUnsupported names the field whose type the format does
  // not have.
  static Result<Schema> FromArrow(const arrow::Schema& schema, int32_t first_id = 0);
  // From a manifest or file descriptor; ids are kept as they are. kUnsupported / kCorrupt name the
  // field.
  static Result<Schema> FromProto(const google::protobuf::RepeatedPtrField<pb::file::Field>& fields,
                                  const google::protobuf::Map<std::string, std::string>& metadata);
  void ToProto(google::protobuf::RepeatedPtrField<pb::file::Field>* fields) const;

  // This schema with `field` (top level, new ids after max_field_id()) at the end; existing ids
  // stay.
  Result<Schema> WithAppended(const std::shared_ptr<arrow::Field>& field) const;
  // The top-level columns `names` in that order, ids kept; an unknown name is kInvalid.
  Result<Schema> Select(const std::vector<std::string>& names) const;
  // The same ids and names with every column nullable except those in `not_null` (storage schema of
  // generations).
  Schema WithNullable(const std::vector<std::string>& not_null) const;

  const std::shared_ptr<arrow::Schema>& arrow_schema() const { return arrow_schema_; }
  const std::vector<Field>& fields() const { return fields_; }  // depth first
  int32_t max_field_id() const;
  // Ids of the leaves below top-level column `index`, depth first.
  std::vector<int32_t> LeafIds(int index) const;
  // All leaves, depth first.
  std::vector<int32_t> AllLeafIds() const;
  // Names of the primary key columns, in key order; empty when the table has none.
  std::vector<std::string> PrimaryKey() const;

 private:
  std::vector<Field> fields_;
  std::shared_ptr<arrow::Schema> arrow_schema_;
};

}  // namespace sarissa::lance
