#include "lance/file/schema.h"

#include <arrow/util/key_value_metadata.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lance/file/file_version.h"

namespace sarissa::lance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<arrow::Schema> Example() {
  auto key = arrow::key_value_metadata({{kPrimaryKeyMetadata, "true"}});
  auto edge = arrow::struct_(
      {arrow::field("target", arrow::utf8()), arrow::field("weight", arrow::float32())});
  return arrow::schema({
      arrow::field("id", arrow::utf8(), false, key),
      arrow::field("role", arrow::dictionary(arrow::int8(), arrow::utf8()), false),
      arrow::field("at", arrow::timestamp(arrow::TimeUnit::MICRO)),
      arrow::field("edges", arrow::list(edge)),
      arrow::field("m", arrow::map(arrow::utf8(), arrow::int32())),
      arrow::field("v", arrow::fixed_size_list(arrow::float32(), 4)),
      arrow::field("d", arrow::decimal128(20, 4)),
      arrow::field("z", arrow::timestamp(arrow::TimeUnit::NANO, "Europe/Berlin")),
  });
}

Result<Schema> RoundTrip(const Schema& schema) {
  google::protobuf::RepeatedPtrField<pb::file::Field> fields;
  schema.ToProto(&fields);
  return Schema::FromProto(fields, {});
}

pb::file::Field ProtoField(int32_t id, int32_t parent, const std::string& name,
                           const std::string& type) {
  pb::file::Field field;
  field.set_id(id);
  field.set_parent_id(parent);
  field.set_name(name);
  field.set_logical_type(type);
  return field;
}

TEST(Schema, IdsRunDepthFirstAndColumnsAreLeaves) {
  const Schema schema = Schema::FromArrow(*Example()).ValueOrDie();
  EXPECT_THAT(schema.AllLeafIds(), ElementsAre(0, 1, 2, 5, 6, 9, 10, 11, 12, 13));
  EXPECT_THAT(schema.LeafIds(3), ElementsAre(5, 6));
  EXPECT_EQ(schema.max_field_id(), 13);
  EXPECT_EQ(schema.fields()[3].logical_type, "list.struct");
  EXPECT_EQ(schema.fields()[11].logical_type, "fixed_size_list:float:4");
  EXPECT_THAT(schema.PrimaryKey(), ElementsAre("id"));
}

TEST(Schema, SurvivesItsProto) {
  const Schema schema = Schema::FromArrow(*Example()).ValueOrDie();
  const Schema again = RoundTrip(schema).ValueOrDie();
  EXPECT_TRUE(again.arrow_schema()->Equals(*schema.arrow_schema(), /*check_metadata=*/true))
      << again.arrow_schema()->ToString();
  EXPECT_EQ(again.AllLeafIds(), schema.AllLeafIds());
  EXPECT_THAT(again.PrimaryKey(), ElementsAre("id"));
}

TEST(Schema, ProtoCarriesTheLegacyFieldsOfTheOriginal) {
  google::protobuf::RepeatedPtrField<pb::file::Field> fields;
  Schema::FromArrow(*Example()).ValueOrDie().ToProto(&fields);
  EXPECT_EQ(fields[0].encoding(), 2);
  EXPECT_TRUE(fields[0].unenforced_primary_key());
  EXPECT_EQ(fields[1].encoding(), 3);
  EXPECT_TRUE(fields[1].has_dictionary());
  EXPECT_EQ(fields[2].encoding(), 1);
  EXPECT_EQ(fields[4].logical_type(), "struct");
  EXPECT_EQ(fields[4].encoding(), 0);
}

TEST(Schema, SelectionKeepsIdsAndOrder) {
  const Schema schema = Schema::FromArrow(*Example()).ValueOrDie();
  const Schema selected = schema.Select({"edges", "id"}).ValueOrDie();
  EXPECT_THAT(selected.AllLeafIds(), ElementsAre(5, 6, 0));
  EXPECT_THAT(selected.arrow_schema()->field_names(), ElementsAre("edges", "id"));
  EXPECT_TRUE(Is(schema.Select({"nope"}).status(), ErrorKind::kInvalid));
}

TEST(Schema, AppendedFieldGetsNewIds) {
  const Schema schema = Schema::FromArrow(*Example()).ValueOrDie();
  const Schema more =
      schema.WithAppended(arrow::field("_tombstone", arrow::boolean(), false)).ValueOrDie();
  EXPECT_EQ(more.max_field_id(), 14);
  EXPECT_EQ(more.arrow_schema()->num_fields(), 9);
  EXPECT_TRUE(
      Is(schema.WithAppended(arrow::field("id", arrow::boolean())).status(), ErrorKind::kInvalid));
}

TEST(Schema, StorageSchemaKeepsOnlyTheKeyNotNull) {
  const Schema schema = Schema::FromArrow(*Example()).ValueOrDie().WithNullable({"id"});
  EXPECT_FALSE(schema.arrow_schema()->field(0)->nullable());
  EXPECT_TRUE(schema.arrow_schema()->field(1)->nullable());
  EXPECT_EQ(schema.PrimaryKey(), std::vector<std::string>{"id"});
}

TEST(Schema, TypesWithoutAFormatNameTheField) {
  auto bad = arrow::struct_({arrow::field("x", arrow::list_view(arrow::int8()))});
  const Status status = Schema::FromArrow(*arrow::schema({arrow::field("c", bad)})).status();
  EXPECT_TRUE(Is(status, ErrorKind::kUnsupported));
  EXPECT_THAT(status.message(), HasSubstr("field 'c.x'"));
}

TEST(Schema, DamagedProtoIsCorruptAndNamed) {
  google::protobuf::RepeatedPtrField<pb::file::Field> fields;
  *fields.Add() = ProtoField(0, -1, "l", "list");
  EXPECT_TRUE(Is(Schema::FromProto(fields, {}).status(), ErrorKind::kCorrupt));  // no child
  *fields.Add() = ProtoField(1, 7, "item", "int32");
  EXPECT_TRUE(Is(Schema::FromProto(fields, {}).status(), ErrorKind::kCorrupt));  // unknown parent
  fields[1].set_parent_id(0);
  EXPECT_TRUE(Schema::FromProto(fields, {}).ok());
  fields[1].set_id(0);
  EXPECT_TRUE(Is(Schema::FromProto(fields, {}).status(), ErrorKind::kCorrupt));  // repeated id
  fields[1].set_id(1);
  for (const char* type :
       {"int33", "decimal:128:200:1", "fixed_size_list:string:2", "fixed_size_binary:0",
        "dict:a:b:c", "timestamp:us", "fixed_size_list:float:-1", ""}) {
    fields[1].set_logical_type(type);
    EXPECT_FALSE(Schema::FromProto(fields, {}).ok()) << type;
  }
}

TEST(FileVersion, ParsesTheThreeVersions) {
  EXPECT_EQ(FileVersion::Parse("2.1").ValueOrDie(), kFileV21);
  EXPECT_EQ(FileVersion::Parse("2.2").ValueOrDie().ToString(), "2.2");
  EXPECT_TRUE(Is(FileVersion::Parse("2.3").status(), ErrorKind::kUnsupported));
}

}  // namespace
}  // namespace sarissa::lance
