// Random records: what is encoded decodes to the same rows; damaged bodies never do harm.
#include <arrow/array/array_base.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "rollout/json_escape.h"
#include "rollout/record_decoder.h"
#include "rollout/record_encoder.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {
namespace {

using Random = std::mt19937_64;

uint64_t Below(Random& random, uint64_t bound) {
  return random() % bound;
}

std::string RandomText(Random& random) {
  static const std::vector<std::string> kPieces = {"a",
                                                   "\n",
                                                   "\"",
                                                   "\\",
                                                   std::string(1, '\0'),
                                                   "\x1f",
                                                   "\xC3\xA9",
                                                   "\xF0\x9F\x98\x80",
                                                   "/",
                                                   " rollout ",
                                                   "\xE2\x80\xA8"};
  std::string text;
  for (uint64_t n = Below(random, 12); n > 0; --n) text += kPieces[Below(random, kPieces.size())];
  std::string json;
  AppendJsonString(text, json);
  return json;
}

std::string RandomFloat(Random& random) {
  switch (Below(random, 4)) {
    case 0:
      return std::to_string(static_cast<int>(Below(random, 2000)) - 1000);
    case 1:
      return fmt::format("{:.9g}", -static_cast<double>(random()) / 1e19);
    case 2:
      return fmt::format("{:.17g}", static_cast<double>(static_cast<int64_t>(random())) * 1e-12);
    default:
      return fmt::format("{}e{}", Below(random, 100), static_cast<int>(Below(random, 70)) - 50);
  }
}

template <typename Make>
std::string RandomArray(Random& random, Make make) {
  std::string out = "[";
  for (uint64_t i = 0, n = Below(random, 6); i < n; ++i) out += (i == 0 ? "" : ",") + make();
  return out + "]";
}

std::string RandomJson(Random& random, int depth) {
  switch (Below(random, depth > 3 ? 4 : 6)) {
    case 0:
      return "null";
    case 1:
      return Below(random, 2) == 0 ? "true" : "-12.50e+3";
    case 2:
      return std::to_string(random());
    case 3:
      return RandomText(random);
    case 4:
      return RandomArray(random, [&] { return RandomJson(random, depth + 1); });
    default: {
      std::string out = "{";
      for (uint64_t i = 0, n = Below(random, 4); i < n; ++i) {
        out += fmt::format("{}\"k{}\":{}", i == 0 ? "" : ", ", Below(random, 9),
                           RandomJson(random, depth + 1));
      }
      return out + "}";
    }
  }
}

std::string RandomValue(Random& random, int column) {
  const auto int8 = [&] { return std::to_string(static_cast<int>(Below(random, 256)) - 128); };
  const auto int32 = [&] { return std::to_string(static_cast<int32_t>(random())); };
  switch (column) {
    case kSequenceOrder:
    case kNumInputTokens:
    case kNumOutputTokens:
      return int32();
    case kPayloadSize:
      return std::to_string(static_cast<int64_t>(random()));
    case kInputTokens:
    case kOutputTokens:
      return RandomArray(random, int32);
    case kLossMask:
      return RandomArray(random, int8);
    case kOutputLogprobs:
    case kInputLogprobs:
    case kRefLogprobs:
      return RandomArray(random, [&] { return RandomFloat(random); });
    case kAdvantage:
    case kReward:
    case kRawReward:
    case kScore:
      return RandomFloat(random);
    case kIncludeInTraining:
      return Below(random, 2) == 0 ? "true" : "false";
    case kCreatedAt:
      return fmt::format("\"20{:02}-0{}-1{}T0{}:59:5{}.{}+0{}:30\"", Below(random, 100),
                         1 + Below(random, 9), Below(random, 10), Below(random, 10),
                         Below(random, 10), Below(random, 10'000'000), Below(random, 10));
    case kRole:
      return fmt::format("\"role{}\"", Below(random, 100));
    case kRelationships:
      return RandomArray(random, [&] {
        return "{\"target_id\":" + RandomText(random) + ",\"relation\":" + RandomText(random) +
               (Below(random, 2) == 0 ? "" : ",\"weight\":" + RandomFloat(random)) + "}";
      });
    case kMetadata:
      return "[" + RandomJson(random, 0) + "]";
    default:
      return RandomText(random);
  }
}

std::string RandomBody(Random& random) {
  std::string body = "{\"records\":[";
  for (uint64_t i = 0, n = 1 + Below(random, 5); i < n; ++i) {
    body += i == 0 ? "{" : ",{";
    bool first = true;
    for (int column = 0; column < kColumnCount; ++column) {
      if (column == kBinaryPayload || (column > kRolloutId && Below(random, 2) == 0)) continue;
      body += fmt::format("{}\"{}\":{}", first ? "" : ",", RecordSchema()->field(column)->name(),
                          RandomValue(random, column));
      first = false;
    }
    body += "}";
  }
  return body + "]}";
}

TEST(RecordProperty, DecodingWhatWasEncodedGivesTheSameRows) {
  constexpr uint64_t kSeed = 20240601;
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", kSeed, round));
    const std::string body = RandomBody(random);
    const auto first = DecodeAppend(body, {}, DecodeOptions{});
    ASSERT_TRUE(first.ok()) << first.status().message() << "\n" << body;
    ASSERT_EQ(first->batches.size(), 1U);
    ASSERT_TRUE(first->batches[0]->ValidateFull().ok());
    std::string json = "{\"records\":[";
    ASSERT_TRUE(EncodeRecords(*first->batches[0], 0, first->batches[0]->num_rows(), json).ok());
    json += "]}";
    const auto second = DecodeAppend(json, {}, DecodeOptions{});
    ASSERT_TRUE(second.ok()) << second.status().message() << "\n" << json;
    ASSERT_TRUE(first->batches[0]->Equals(*second->batches[0], true)) << body << "\n" << json;
    ASSERT_EQ(first->ids, second->ids);
  }
}

std::string Damage(std::string body, Random& random) {
  static constexpr std::string_view kBytes = "{}[]\",:\\0-1e.ntf u\x00\x1f\xFF\xC3";
  for (uint64_t n = 1 + Below(random, 4); n > 0 && !body.empty(); --n) {
    const size_t at = Below(random, body.size());
    const size_t length = 1 + Below(random, 8);
    switch (Below(random, 5)) {
      case 0:
        body[at] = kBytes[Below(random, kBytes.size())];
        break;
      case 1:
        body.erase(at, length);
        break;
      case 2:
        body.insert(at, 1, kBytes[Below(random, kBytes.size())]);
        break;
      case 3:
        body.insert(at, body.substr(Below(random, body.size()), length));
        break;
      default:
        body.resize(at);
    }
  }
  return body;
}

TEST(RecordProperty, DamagedBodiesAreRefusedOrDecodeToValidRows) {
  constexpr uint64_t kSeed = 20240602;
  Random random(kSeed);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", kSeed, round));
    const std::string body = Damage(RandomBody(random), random);
    const auto decoded = DecodeAppend(body, {}, DecodeOptions{});
    if (!decoded.ok()) {
      ++refused;
      ASSERT_TRUE(Is(decoded.status(), ErrorKind::kInvalid)) << decoded.status().message();
      continue;
    }
    ASSERT_TRUE(decoded->batches[0]->ValidateFull().ok());
  }
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace sarissa::rollout
