#include "rollout/record_encoder.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "rollout/record_decoder.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {
namespace {

std::shared_ptr<arrow::RecordBatch> OneColumn(const std::string& name,
                                              const std::shared_ptr<arrow::Array>& array) {
  return arrow::RecordBatch::Make(arrow::schema({arrow::field(name, array->type())}),
                                  array->length(), {array});
}

std::string Encode(const arrow::RecordBatch& batch) {
  std::string out;
  const Status status = EncodeRecords(batch, 0, batch.num_rows(), out);
  return status.ok() ? out : "error: " + std::string(status.message());
}

template <typename Builder>
std::shared_ptr<arrow::Array> Strings(const std::vector<std::string>& values) {
  Builder builder;
  EXPECT_TRUE(builder.AppendValues(values).ok());
  return builder.Finish().ValueOrDie();
}

TEST(RecordEncoder, JsonColumnsAreAllButThePayload) {
  EXPECT_EQ(JsonColumns().size(), static_cast<size_t>(kColumnCount) - 1);
  EXPECT_THAT(JsonColumns(), testing::Not(testing::Contains("binary_payload")));
}

TEST(RecordEncoder, WritesTheSevenRequiredKeysOfABareRecord) {
  DecodeOptions options{env::WallTime(std::chrono::microseconds(0)), false};
  const auto decoded =
      DecodeAppend(R"({"records":[{"id":"a","rollout_id":"r","binary_payload":"Zm9v"}]})", {},
                   options)
          .ValueOrDie();
  EXPECT_EQ(Encode(*decoded.batches[0]),
            R"({"id":"a","rollout_id":"r","problem_id":"r","sequence_order":0,"role":"assistant",)"
            R"("created_at":"1970-01-01T00:00:00Z","content_type":"text/plain"})");
}

TEST(RecordEncoder, ReadsRoleAsADictionaryOrAsStrings) {
  EXPECT_EQ(Encode(*OneColumn("role", Strings<arrow::StringBuilder>({"tool"}))),
            R"({"role":"tool"})");
  EXPECT_EQ(Encode(*OneColumn("role", Strings<arrow::LargeStringBuilder>({"tool"}))),
            R"({"role":"tool"})");
  arrow::Int32Builder codes;
  ASSERT_TRUE(codes.AppendValues({1, 0}).ok());
  const auto roles =
      arrow::DictionaryArray::FromArrays(arrow::dictionary(arrow::int32(), arrow::large_utf8()),
                                         codes.Finish().ValueOrDie(),
                                         Strings<arrow::LargeStringBuilder>({"a", "b"}))
          .ValueOrDie();
  EXPECT_EQ(Encode(*OneColumn("role", roles)), R"({"role":"b"},{"role":"a"})");
}

TEST(RecordEncoder, ReportsADictionaryCodeWithoutAValue) {
  arrow::Int8Builder codes;
  ASSERT_TRUE(codes.Append(3).ok());
  const auto roles = std::make_shared<arrow::DictionaryArray>(
      arrow::dictionary(arrow::int8(), arrow::utf8()), codes.Finish().ValueOrDie(),
      Strings<arrow::StringBuilder>({"a"}));
  std::string out;
  EXPECT_TRUE(Is(EncodeRecords(*OneColumn("role", roles), 0, 1, out), ErrorKind::kCorrupt));
}

TEST(RecordEncoder, WritesMetadataVerbatimOnlyWhenItIsJson) {
  const auto batch =
      OneColumn("metadata", Strings<arrow::LargeStringBuilder>(
                                {R"({"b": 1e5 })", "not json", "NaN", "", "[1,]", "null"}));
  EXPECT_EQ(
      Encode(*batch),
      R"({"metadata":{"b": 1e5 }},{"metadata":"not json"},{"metadata":"NaN"},{"metadata":""},)"
      R"({"metadata":"[1,]"},{"metadata":null})");
}

TEST(RecordEncoder, WritesFloatsThatAreNotNumbersAsNull) {
  arrow::FloatBuilder builder;
  ASSERT_TRUE(builder.AppendValues({0.1F, std::numeric_limits<float>::quiet_NaN()}).ok());
  EXPECT_EQ(Encode(*OneColumn("reward", builder.Finish().ValueOrDie())),
            R"({"reward":0.1},{"reward":null})");
}

TEST(RecordEncoder, WritesNullItemsOfLists) {
  auto items = std::make_shared<arrow::Int32Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), items);
  ASSERT_TRUE(lists.Append().ok());
  ASSERT_TRUE(items->Append(1).ok());
  ASSERT_TRUE(items->AppendNull().ok());
  EXPECT_EQ(Encode(*OneColumn("input_tokens", lists.Finish().ValueOrDie())),
            R"({"input_tokens":[1,null]})");
}

TEST(RecordEncoder, RefusesAColumnOfAnotherType) {
  std::string out;
  const Status status =
      EncodeRecords(*OneColumn("reward", Strings<arrow::StringBuilder>({"a"})), 0, 1, out);
  EXPECT_TRUE(Is(status, ErrorKind::kUnsupported));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("reward"));
}

TEST(RecordEncoder, ReportsANullInARequiredColumn) {
  arrow::StringBuilder builder;
  ASSERT_TRUE(builder.AppendNull().ok());
  std::string out;
  EXPECT_TRUE(Is(EncodeRecords(*OneColumn("id", builder.Finish().ValueOrDie()), 0, 1, out),
                 ErrorKind::kCorrupt));
}

TEST(RecordEncoder, WritesARangeOfRows) {
  const auto batch = OneColumn("id", Strings<arrow::StringBuilder>({"a", "b", "c"}));
  std::string out = "x";
  ASSERT_TRUE(EncodeRecords(*batch, 1, 2, out).ok());
  EXPECT_EQ(out, R"(x{"id":"b"},{"id":"c"})");
  ASSERT_TRUE(EncodeRecords(*batch->Slice(2, 1), 0, 1, out).ok());
  EXPECT_EQ(out, R"(x{"id":"b"},{"id":"c"}{"id":"c"})");
  ASSERT_TRUE(EncodeRecords(*batch, 3, 0, out).ok());
  EXPECT_FALSE(EncodeRecords(*batch, 2, 2, out).ok());
}

}  // namespace
}  // namespace sarissa::rollout
