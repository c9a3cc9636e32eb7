#include "rollout/record_schema.h"

#include <arrow/util/key_value_metadata.h>
#include <gtest/gtest.h>

#include <string>

namespace sarissa::rollout {
namespace {

TEST(RecordSchema, PositionsMatchTheNames) {
  const arrow::Schema& schema = *RecordSchema();
  ASSERT_EQ(schema.num_fields(), kColumnCount);
  EXPECT_EQ(schema.GetFieldIndex("id"), kId);
  EXPECT_EQ(schema.GetFieldIndex("rollout_id"), kRolloutId);
  EXPECT_EQ(schema.GetFieldIndex("problem_id"), kProblemId);
  EXPECT_EQ(schema.GetFieldIndex("dataset"), kDataset);
  EXPECT_EQ(schema.GetFieldIndex("sequence_order"), kSequenceOrder);
  EXPECT_EQ(schema.GetFieldIndex("role"), kRole);
  EXPECT_EQ(schema.GetFieldIndex("created_at"), kCreatedAt);
  EXPECT_EQ(schema.GetFieldIndex("content"), kContent);
  EXPECT_EQ(schema.GetFieldIndex("content_type"), kContentType);
  EXPECT_EQ(schema.GetFieldIndex("model_input_string"), kModelInputString);
  EXPECT_EQ(schema.GetFieldIndex("model_output_string"), kModelOutputString);
  EXPECT_EQ(schema.GetFieldIndex("rationale"), kRationale);
  EXPECT_EQ(schema.GetFieldIndex("problem_text"), kProblemText);
  EXPECT_EQ(schema.GetFieldIndex("user_metadata"), kUserMetadata);
  EXPECT_EQ(schema.GetFieldIndex("input_tokens"), kInputTokens);
  EXPECT_EQ(schema.GetFieldIndex("output_tokens"), kOutputTokens);
  EXPECT_EQ(schema.GetFieldIndex("num_input_tokens"), kNumInputTokens);
  EXPECT_EQ(schema.GetFieldIndex("num_output_tokens"), kNumOutputTokens);
  EXPECT_EQ(schema.GetFieldIndex("output_logprobs"), kOutputLogprobs);
  EXPECT_EQ(schema.GetFieldIndex("input_logprobs"), kInputLogprobs);
  EXPECT_EQ(schema.GetFieldIndex("ref_logprobs"), kRefLogprobs);
  EXPECT_EQ(schema.GetFieldIndex("loss_mask"), kLossMask);
  EXPECT_EQ(schema.GetFieldIndex("advantage"), kAdvantage);
  EXPECT_EQ(schema.GetFieldIndex("reward"), kReward);
  EXPECT_EQ(schema.GetFieldIndex("raw_reward"), kRawReward);
  EXPECT_EQ(schema.GetFieldIndex("grader_id"), kGraderId);
  EXPECT_EQ(schema.GetFieldIndex("score"), kScore);
  EXPECT_EQ(schema.GetFieldIndex("include_in_training"), kIncludeInTraining);
  EXPECT_EQ(schema.GetFieldIndex("exclude_reason"), kExcludeReason);
  EXPECT_EQ(schema.GetFieldIndex("policy_version"), kPolicyVersion);
  EXPECT_EQ(schema.GetFieldIndex("relationships"), kRelationships);
  EXPECT_EQ(schema.GetFieldIndex("binary_payload"), kBinaryPayload);
  EXPECT_EQ(schema.GetFieldIndex("payload_size"), kPayloadSize);
  EXPECT_EQ(schema.GetFieldIndex("payload_checksum"), kPayloadChecksum);
  EXPECT_EQ(schema.GetFieldIndex("artifact_type"), kArtifactType);
  EXPECT_EQ(schema.GetFieldIndex("metadata"), kMetadata);
}

TEST(RecordSchema, TheKeyIsMarkedAndExactlySevenColumnsAreRequired) {
  EXPECT_EQ(RecordSchema()
                ->field(kId)
                ->metadata()
                ->Get("lance-schema:unenforced-primary-key")
                .ValueOrDie(),
            "true");
  std::string required;
  for (const auto& field : RecordSchema()->fields()) {
    if (!field->nullable()) required += field->name() + " ";
  }
  EXPECT_EQ(required, "id rollout_id problem_id sequence_order role created_at content_type ");
}

TEST(RecordSchema, NestedTypesAreSpelledAsInTheFile) {
  EXPECT_EQ(RecordSchema()->field(kRole)->type()->ToString(),
            "dictionary<values=string, indices=int8, ordered=0>");
  EXPECT_EQ(RecordSchema()->field(kLossMask)->type()->ToString(), "list<item: int8>");
  EXPECT_EQ(RecordSchema()->field(kCreatedAt)->type()->ToString(), "timestamp[us]");
  EXPECT_EQ(RecordSchema()->field(kRelationships)->type()->ToString(),
            "list<item: struct<target_id: string, relation: string, weight: float>>");
}

}  // namespace
}  // namespace sarissa::rollout
