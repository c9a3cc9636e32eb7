#include "append_request.h"

#include <fmt/format.h>

#include <charconv>
#include <random>
#include <span>

namespace sarissa::bench {
namespace {

constexpr std::string_view kIdPrefix = "bench-";
constexpr size_t kClientDigits = 4;
constexpr size_t kSequenceDigits = 12;
constexpr size_t kSequenceOffset = kIdPrefix.size() + kClientDigits + 1;
static_assert(kSequenceOffset + kSequenceDigits == kRowIdSize);
constexpr size_t kIdOffsetInRecord = std::string_view(R"({"id":")").size();

constexpr int kTokens = 8192;
constexpr int kVocabulary = 151'000;
constexpr int kContentWords = 30;
constexpr int kSmallVariants = 16;
constexpr int kTokenVariants = 4;

template <typename T>
std::optional<T> ParseHex(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void WriteHex(uint64_t value, std::span<char> digits) {
  for (size_t i = digits.size(); i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
}

std::string RandomText(std::mt19937_64& random) {
  static constexpr std::string_view kWords[] = {"the",    "sum",   "of",    "both", "sides",
                                                "gives",  "so",    "we",    "take", "x",
                                                "equals", "three", "hence", "check"};
  std::string text;
  for (int i = 0; i < kContentWords; ++i) {
    if (i != 0) text += ' ';
    text += kWords[random() % std::size(kWords)];
  }
  return text;
}

std::string TokenFields(std::mt19937_64& random) {
  std::uniform_int_distribution<int> token(0, kVocabulary);
  std::exponential_distribution<double> surprise(2.0);
  std::string tokens;
  std::string logprobs;
  for (int i = 0; i < kTokens; ++i) {
    const std::string_view comma = i == 0 ? "" : ",";
    fmt::format_to(std::back_inserter(tokens), "{}{}", comma, token(random));
    fmt::format_to(std::back_inserter(logprobs), "{}{:.6f}", comma, -surprise(random));
  }
  return fmt::format(R"(,"output_tokens":[{}],"output_logprobs":[{}])", tokens, logprobs);
}

}  // namespace

std::optional<RowId> ParseRowId(std::string_view text) {
  if (text.size() != kRowIdSize || !text.starts_with(kIdPrefix)) return std::nullopt;
  const auto client = ParseHex<uint32_t>(text.substr(kIdPrefix.size(), kClientDigits));
  const auto sequence = ParseHex<uint64_t>(text.substr(kSequenceOffset));
  if (!client || !sequence || text[kSequenceOffset - 1] != '-') return std::nullopt;
  return RowId{*client, *sequence};
}

std::string MakeRecord(Workload workload, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string record = fmt::format(
      R"({{"id":"{}0000-000000000000","rollout_id":"rollout-{:06}","problem_id":"gsm8k-{:05}","dataset":"gsm8k",)"
      R"("sequence_order":{},"role":"assistant","content_type":"text/plain","content":"{}",)"
      R"("num_output_tokens":{},"reward":{:.4f},"policy_version":"step-{:06}","include_in_training":true,)"
      R"("metadata":{{"temperature":0.7,"worker":{}}})",
      kIdPrefix, random() % 1'000'000, random() % 8'000, random() % 8, RandomText(random),
      workload == Workload::kSmall ? kContentWords : kTokens,
      static_cast<double>(random() % 10'000) / 10'000, random() % 1'000, random() % 64);
  if (workload == Workload::kTokens8k) record += TokenFields(random);
  return record + '}';
}

AppendRequests::AppendRequests(const RequestOptions& options) {
  const int variants = options.workload == Workload::kSmall ? kSmallVariants : kTokenVariants;
  uint64_t seed = uint64_t{options.client} << 32;
  for (int i = 0; i < variants; ++i) {
    Variant variant;
    std::string body = R"({"records":[)";
    for (int row = 0; row < options.rows; ++row) {
      if (row != 0) body += ',';
      const size_t id = body.size() + kIdOffsetInRecord;
      body += MakeRecord(options.workload, seed++);
      WriteHex(options.client, std::span(body).subspan(id + kIdPrefix.size(), kClientDigits));
      variant.sequence_offsets.push_back(id + kSequenceOffset);
    }
    body += "]}";
    variant.bytes = fmt::format(
        "POST /api/v1/rollouts/{}/records HTTP/1.1\r\nHost: {}\r\nContent-Type: "
        "application/json\r\n"
        "Content-Length: {}\r\n\r\n",
        options.store, options.host, body.size());
    for (size_t& offset : variant.sequence_offsets) offset += variant.bytes.size();
    variant.bytes += body;
    variants_.push_back(std::move(variant));
  }
}

std::string_view AppendRequests::Next(uint64_t first_sequence) {
  Variant& variant = variants_[next_variant_];
  next_variant_ = (next_variant_ + 1) % variants_.size();
  for (const size_t offset : variant.sequence_offsets) {
    WriteHex(first_sequence++, std::span(variant.bytes).subspan(offset, kSequenceDigits));
  }
  return variant.bytes;
}

}  // namespace sarissa::bench
