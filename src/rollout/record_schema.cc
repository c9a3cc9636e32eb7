#include "rollout/record_schema.h"

#include <arrow/util/key_value_metadata.h>

namespace sarissa::rollout {
namespace {

std::shared_ptr<arrow::DataType> ListOf(std::shared_ptr<arrow::DataType> item) {
  return arrow::list(arrow::field("item", std::move(item)));
}

std::shared_ptr<arrow::Schema> MakeSchema() {
  using arrow::field;
  constexpr bool kRequired = false;
  const auto relationship =
      arrow::struct_({field("target_id", arrow::utf8()), field("relation", arrow::utf8()),
                      field("weight", arrow::float32())});
  return arrow::schema({
      field("id", arrow::utf8(), kRequired,
            arrow::key_value_metadata({"lance-schema:unenforced-primary-key"}, {"true"})),
      field("rollout_id", arrow::utf8(), kRequired),
      field("problem_id", arrow::utf8(), kRequired),
      field("dataset", arrow::utf8()),
      field("sequence_order", arrow::int32(), kRequired),
      field("role", arrow::dictionary(arrow::int8(), arrow::utf8()), kRequired),
      field("created_at", arrow::timestamp(arrow::TimeUnit::MICRO), kRequired),
      field("content", arrow::large_utf8()),
      field("content_type", arrow::utf8(), kRequired),
      field("model_input_string", arrow::large_utf8()),
      field("model_output_string", arrow::large_utf8()),
      field("rationale", arrow::large_utf8()),
      field("problem_text", arrow::large_utf8()),
      field("user_metadata", arrow::large_utf8()),
      field("input_tokens", ListOf(arrow::int32())),
      field("output_tokens", ListOf(arrow::int32())),
      field("num_input_tokens", arrow::int32()),
      field("num_output_tokens", arrow::int32()),
      field("output_logprobs", ListOf(arrow::float32())),
      field("input_logprobs", ListOf(arrow::float32())),
      field("ref_logprobs", ListOf(arrow::float32())),
      field("loss_mask", ListOf(arrow::int8())),
      field("advantage", arrow::float32()),
      field("reward", arrow::float32()),
      field("raw_reward", arrow::float32()),
      field("grader_id", arrow::utf8()),
      field("score", arrow::float32()),
      field("include_in_training", arrow::boolean()),
      field("exclude_reason", arrow::utf8()),
      field("policy_version", arrow::utf8()),
      field("relationships", ListOf(relationship)),
      field("binary_payload", arrow::large_binary()),
      field("payload_size", arrow::int64()),
      field("payload_checksum", arrow::utf8()),
      field("artifact_type", arrow::utf8()),
      field("metadata", arrow::large_utf8()),
  });
}

}  // namespace

const std::shared_ptr<arrow::Schema>& RecordSchema() {
  static const std::shared_ptr<arrow::Schema> schema = MakeSchema();
  return schema;
}

}  // namespace sarissa::rollout
