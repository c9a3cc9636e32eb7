// The 36 columns of a rollout table, in physical order, as the original makes them (primary key
// `id`).
#pragma once

#include <arrow/type.h>

#include <memory>

namespace sarissa::rollout {

const std::shared_ptr<arrow::Schema>& RecordSchema();

// Positions in RecordSchema(); checked by a test against the names.
enum Column : int {
  kId,
  kRolloutId,
  kProblemId,
  kDataset,
  kSequenceOrder,
  kRole,
  kCreatedAt,
  kContent,
  kContentType,
  kModelInputString,
  kModelOutputString,
  kRationale,
  kProblemText,
  kUserMetadata,
  kInputTokens,
  kOutputTokens,
  kNumInputTokens,
  kNumOutputTokens,
  kOutputLogprobs,
  kInputLogprobs,
  kRefLogprobs,
  kLossMask,
  kAdvantage,
  kReward,
  kRawReward,
  kGraderId,
  kScore,
  kIncludeInTraining,
  kExcludeReason,
  kPolicyVersion,
  kRelationships,
  kBinaryPayload,
  kPayloadSize,
  kPayloadChecksum,
  kArtifactType,
  kMetadata,
  kColumnCount,
};

}  // namespace sarissa::rollout
