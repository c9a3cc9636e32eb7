#include "cli/serve_flags.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

namespace sarissa::cli {
namespace {

// Sets an environment variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

std::string refusal;  // why the last arguments were refused

// Unset when the arguments are refused.
std::optional<ServeOptions> Parse(std::vector<std::string> arguments) {
  ServeOptions options;
  CLI::App app;
  ServeFlags flags(app, options);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& e) {
    refusal = e.what();
    return std::nullopt;
  }
  flags.Finish();
  return options;
}

TEST(ServeFlags, DefaultsAreThoseOfTheContract) {
  const Variable host("HOSTNAME", "");
  const auto options = Parse({});
  ASSERT_TRUE(options.has_value()) << refusal;
  EXPECT_EQ(options->http.host, "0.0.0.0");
  EXPECT_EQ(options->http.port, 3000);
  EXPECT_EQ(options->data_dir, "./lance-data");
  EXPECT_EQ(options->instance_id, "default");
  EXPECT_EQ(options->flush_interval_secs, 30U);
  EXPECT_EQ(options->log_sync, "always");
  EXPECT_EQ(options->http.body_idle_timeout, std::chrono::seconds(120));
  EXPECT_TRUE(options->without_effect.empty());
}

TEST(ServeFlags, InstanceIdComesFromFlagThenVariableThenHostName) {
  const Variable host("HOSTNAME", "pod-7");
  EXPECT_EQ(Parse({})->instance_id, "pod-7");
  {
    const Variable empty("INSTANCE_ID", "");
    EXPECT_EQ(Parse({})->instance_id, "pod-7");
  }
  const Variable id("INSTANCE_ID", "a");
  EXPECT_EQ(Parse({})->instance_id, "a");
  EXPECT_EQ(Parse({"--instance-id", "b"})->instance_id, "b");
  EXPECT_EQ(Parse({"--instance-id", ""})->instance_id, "pod-7");
}

TEST(ServeFlags, VariablesCountWhereNoFlagIsGiven) {
  const Variable interval("ROLLOUT_FLUSH_INTERVAL_SECS", "7");
  EXPECT_EQ(Parse({})->flush_interval_secs, 7U);
  EXPECT_EQ(Parse({"--rollout-flush-interval-secs", "0"})->flush_interval_secs, 0U);
}

TEST(ServeFlags, SizesTakeSuffixes) {
  EXPECT_EQ(Parse({"--memory-limit", "512MB"})->memory_limit, uint64_t{512} << 20);
  EXPECT_EQ(Parse({"--memory-limit", "2GiB"})->memory_limit, uint64_t{2} << 30);
  EXPECT_EQ(Parse({"--memory-limit", "4096"})->memory_limit, 4096U);
  EXPECT_FALSE(Parse({"--memory-limit", "lots"}).has_value());
}

TEST(ServeFlags, FlagsWithoutEffectAreNamed) {
  const Variable merge("ROLLOUT_MERGE_CONCURRENCY", "8");
  const auto options =
      Parse({"--rollout-cleanup-interval-secs", "5", "--rollout-key-index-type", "zonemap"});
  ASSERT_TRUE(options.has_value()) << refusal;
  std::vector<std::string> named = options->without_effect;
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named,
            (std::vector<std::string>{"--rollout-cleanup-interval-secs", "--rollout-key-index-type",
                                      "--rollout-merge-concurrency"}));
}

TEST(ServeFlags, NonsenseIsRefused) {
  EXPECT_FALSE(Parse({"--port", "70000"}).has_value());
  EXPECT_FALSE(Parse({"--port", "x"}).has_value());
  EXPECT_FALSE(Parse({"--log-sync", "sometimes"}).has_value());
  EXPECT_FALSE(Parse({"--no-such-flag"}).has_value());
  EXPECT_FALSE(Parse({"--rollout-merge-concurrency", "many"}).has_value());
  EXPECT_FALSE(Parse({"--request-body-idle-timeout-secs", "0"}).has_value());
}

}  // namespace
}  // namespace sarissa::cli
