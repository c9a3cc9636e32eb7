#include "rollout/record_filter.h"

#include <arrow/array/array_dict.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace sarissa::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Builder>
std::shared_ptr<arrow::Array> Strings(const std::vector<std::optional<std::string>>& values) {
  Builder builder;
  for (const auto& value : values) {
    EXPECT_TRUE((value.has_value() ? builder.Append(*value) : builder.AppendNull()).ok());
  }
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> Roles() {
  arrow::Int8Builder codes;
  EXPECT_TRUE(codes.AppendValues({1, 0, 1, 0}, {true, true, false, true}).ok());
  return arrow::DictionaryArray::FromArrays(arrow::dictionary(arrow::int8(), arrow::utf8()),
                                            codes.Finish().ValueOrDie(),
                                            Strings<arrow::StringBuilder>({"tool", "assistant"}))
      .ValueOrDie();
}

std::shared_ptr<arrow::RecordBatch> Batch() {
  arrow::BooleanBuilder flags;
  EXPECT_TRUE(
      flags.AppendValues(std::vector<bool>{true, false, true, true}, {true, true, true, false})
          .ok());
  auto rollouts = Strings<arrow::StringBuilder>({"r1", "r2", "r1", "r11"});
  auto datasets = Strings<arrow::LargeStringBuilder>({"d", std::nullopt, "e", "d"});
  auto schema = arrow::schema({arrow::field("rollout_id", rollouts->type()),
                               arrow::field("dataset", datasets->type()),
                               arrow::field("role", Roles()->type()),
                               arrow::field("include_in_training", arrow::boolean())});
  return arrow::RecordBatch::Make(schema, 4,
                                  {rollouts, datasets, Roles(), flags.Finish().ValueOrDie()});
}

std::vector<uint8_t> Keep(std::string_view filters,
                          const std::shared_ptr<arrow::RecordBatch>& batch = Batch()) {
  const auto predicate = ParseFilters(filters).ValueOrDie();
  std::vector<uint8_t> keep(static_cast<size_t>(batch->num_rows()), 1);
  EXPECT_TRUE(predicate->Evaluate(*batch, keep).ok());
  return keep;
}

TEST(RecordFilter, MatchesEveryWayThatStringsAreStored) {
  EXPECT_THAT(Keep(R"({"rollout_id":"r1"})"), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(Keep(R"({"dataset":"d"})"), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(Keep(R"({"role":"assistant"})"), ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(Keep(R"({"role":"nobody"})"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(Keep(R"({"role":"tool"})"), ElementsAre(0, 1, 0, 1));
}

TEST(RecordFilter, NullsNeverMatch) {
  EXPECT_THAT(Keep(R"({"include_in_training":true})"), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(Keep(R"({"include_in_training":false})"), ElementsAre(0, 1, 0, 0));
}

TEST(RecordFilter, ConditionsAreAnded) {
  EXPECT_THAT(Keep(R"( { "rollout_id" : "r1", "include_in_training" : true, "dataset" : "e" } )"),
              ElementsAre(0, 0, 1, 0));
}

TEST(RecordFilter, ReadsSlices) {
  EXPECT_THAT(Keep(R"({"rollout_id":"r1"})", Batch()->Slice(1, 2)), ElementsAre(0, 1));
  EXPECT_THAT(Keep(R"({"role":"tool"})", Batch()->Slice(1, 3)), ElementsAre(1, 0, 1));
  EXPECT_THAT(Keep(R"({"include_in_training":true})", Batch()->Slice(2, 2)), ElementsAre(1, 0));
}

TEST(RecordFilter, NeverSetsAMark) {
  std::vector<uint8_t> keep = {0, 1, 1, 1};
  ASSERT_TRUE(ParseFilters(R"({"rollout_id":"r1"})").ValueOrDie()->Evaluate(*Batch(), keep).ok());
  EXPECT_THAT(keep, ElementsAre(0, 0, 1, 0));
}

TEST(RecordFilter, EmptyObjectsAndEmptyStringsAreNoCondition) {
  EXPECT_EQ(ParseFilters("{}").ValueOrDie(), nullptr);
  EXPECT_EQ(ParseFilters(R"({"dataset":"","role":""})").ValueOrDie(), nullptr);
}

TEST(RecordFilter, KnowsAllEightKeys) {
  const auto predicate =
      ParseFilters(
          R"({"rollout_id":"a","problem_id":"b","policy_version":"c","role":"d","artifact_type":"e",)"
          R"("dataset":"f","content_type":"g","include_in_training":false})")
          .ValueOrDie();
  EXPECT_EQ(predicate->columns().size(), 8U);
}

void ExpectRefused(std::string_view filters, std::string_view part) {
  const Status status = ParseFilters(filters).status();
  ASSERT_TRUE(Is(status, ErrorKind::kInvalid)) << filters;
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(part))) << filters;
}

TEST(RecordFilter, RefusesUnknownAndDuplicateKeysByName) {
  ExpectRefused(R"({"id":"x"})", "unknown key 'id'");
  ExpectRefused(R"({"reward":1})", "unknown key 'reward'");
  ExpectRefused(R"({"role":"a","role":"a"})", "duplicate key 'role'");
}

TEST(RecordFilter, RefusesWrongTypesByName) {
  ExpectRefused(R"({"role":null})", "role: expected a string, got null");
  ExpectRefused(R"({"role":["a"]})", "role: expected a string, got an array");
  ExpectRefused(R"({"dataset":1})", "dataset: expected a string");
  ExpectRefused(R"({"include_in_training":"true"})", "include_in_training: expected a boolean");
  ExpectRefused(R"({"include_in_training":null})", "include_in_training");
}

TEST(RecordFilter, RefusesWhatIsNotAnObject) {
  for (const char* text :
       {"", "[]", "null", "\"role\"", "{", "{\"role\":\"a\"", "{\"role\":\"a\",}", "{} {}",
        "{\"role\" \"a\"}", "{\"role\":\"\\ud800\"}", "{\"role\":\"\xFF\"}"}) {
    ExpectRefused(text, "invalid filters");
  }
}

TEST(RecordFilter, AMissingColumnIsAnError) {
  std::vector<uint8_t> keep(4, 1);
  const auto predicate = ParseFilters(R"({"artifact_type":"a"})").ValueOrDie();
  EXPECT_TRUE(Is(predicate->Evaluate(*Batch(), keep), ErrorKind::kInternal));
}

}  // namespace
}  // namespace sarissa::rollout
