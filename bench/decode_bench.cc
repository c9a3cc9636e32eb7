// How fast append bodies become Arrow, and rows become JSON. The main case is one rollout of 8192
// tokens with log probabilities.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>

#include "rollout/record_decoder.h"
#include "rollout/record_encoder.h"

namespace sarissa::rollout {
namespace {

constexpr uint32_t kSeed = 20240501;

// `digits` is how the log probabilities are written: 9 as a float32 prints, 17 as a Python float
// does.
std::string MakeRecord(int tokens, int digits, std::mt19937& random) {
  std::uniform_int_distribution<int> token(0, 151'000);
  std::exponential_distribution<double> surprise(2.0);
  std::string ids;
  std::string logprobs;
  for (int i = 0; i < tokens; ++i) {
    ids += fmt::format("{}{}", i == 0 ? "" : ",", token(random));
    logprobs += fmt::format("{}{:.{}g}", i == 0 ? "" : ",", -surprise(random), digits);
  }
  return fmt::format(
      R"({{"id":"0b5f3f0e-8d3a-4d0c-9a53-2f6f3a9c{:04x}","rollout_id":"rollout-{}","role":"assistant",)"
      R"("sequence_order":1,"content_type":"text/plain","output_tokens":[{}],"output_logprobs":[{}],"reward":0.5}})",
      random() & 0xFFFF, random(), ids, logprobs);
}

std::string MakeBody(int records, int tokens, int digits) {
  std::mt19937 random(kSeed);
  std::string body = "{\"records\":[";
  for (int i = 0; i < records; ++i) {
    if (i != 0) body += ',';
    body += MakeRecord(tokens, digits, random);
  }
  return body + "]}";
}

void SetRates(benchmark::State& state, size_t bytes, int64_t records) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(bytes));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * records);
}

void Decode(benchmark::State& state) {
  const std::string body =
      MakeBody(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
               static_cast<int>(state.range(2)));
  for (auto _ : state) {
    auto decoded = DecodeAppend(body, {}, DecodeOptions{});
    if (!decoded.ok()) state.SkipWithError(decoded.status().message().c_str());
    benchmark::DoNotOptimize(decoded);
  }
  SetRates(state, body.size(), state.range(0));
}
BENCHMARK(Decode)
    ->ArgNames({"records", "tokens", "digits"})
    ->Args({1, 8192, 9})
    ->Args({1, 8192, 17})
    ->Args({64, 8192, 9})
    ->Args({1, 0, 9})
    ->Args({1024, 16, 9});

void Encode(benchmark::State& state) {
  const std::string body =
      MakeBody(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), 9);
  const auto decoded = DecodeAppend(body, {}, DecodeOptions{}).ValueOrDie();
  std::string out;
  for (auto _ : state) {
    out.clear();
    const Status status = EncodeRecords(*decoded.batches[0], 0, state.range(0), out);
    if (!status.ok()) state.SkipWithError(status.message().c_str());
  }
  SetRates(state, out.size(), state.range(0));
}
BENCHMARK(Encode)->ArgNames({"records", "tokens"})->Args({1, 8192})->Args({1024, 16});

}  // namespace
}  // namespace sarissa::rollout

BENCHMARK_MAIN();
