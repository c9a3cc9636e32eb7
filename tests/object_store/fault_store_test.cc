#include "object_store/fault_store.h"

#include <arrow/buffer.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "object_store/memory_store.h"
#include "object_store/metered_store.h"

namespace sarissa::object_store {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct Faulty {
  MemoryStore inner;
  std::vector<env::Duration> slept;
  FaultStore store{inner, [this](env::Duration duration) { slept.push_back(duration); }};

  Status Put(const std::string& name, std::string_view text) {
    return store.Put(name, Bytes(text), PutMode::kIfAbsent);
  }
  std::string Inner(const std::string& name) {
    const auto got = inner.Get(name);
    return got.ok() ? (*got)->ToString() : "(none)";
  }
};

TEST(FaultStore, FailsTheNthMatchingCall) {
  Faulty world;
  const auto rule = world.store.AddRule({.operation = StoreOperation::kFinish,
                                         .name_glob = "*/wal/*",
                                         .nth = 2,
                                         .status = MakeError(ErrorKind::kNoSpace, "full")});
  EXPECT_TRUE(world.Put("t/wal/1", "x").ok());
  EXPECT_TRUE(world.Put("t/manifest", "x").ok());
  EXPECT_TRUE(Is(world.Put("t/wal/2", "x"), ErrorKind::kNoSpace));
  EXPECT_TRUE(world.Put("t/wal/2", "x").ok());
  EXPECT_EQ(world.store.matches(rule), 3u);
  EXPECT_EQ(world.store.calls(StoreOperation::kFinish), 4u);
  EXPECT_EQ(world.store.calls(StoreOperation::kCreate), 4u);
}

TEST(FaultStore, FailsEveryCallUntilTheRuleGoes) {
  Faulty world;
  ASSERT_TRUE(world.Put("a", "x").ok());
  const auto rule = world.store.AddRule({});
  EXPECT_TRUE(Is(world.store.Head("a").status(), ErrorKind::kUnavailable));
  EXPECT_TRUE(Is(world.store.List("", {}).status(), ErrorKind::kUnavailable));
  EXPECT_TRUE(Is(world.store.Delete("a"), ErrorKind::kUnavailable));
  EXPECT_TRUE(Is(world.store.DeletePrefix("a/"), ErrorKind::kUnavailable));
  EXPECT_TRUE(Is(world.store.Open("a").status(), ErrorKind::kUnavailable));
  world.store.RemoveRule(rule);
  EXPECT_TRUE(world.store.Head("a").ok());
}

TEST(FaultStore, LandedButTheAnswerIsLost) {
  Faulty world;
  world.store.AddRule(
      {.operation = StoreOperation::kFinish, .action = FaultAction::kLandedAnswerLost});
  EXPECT_TRUE(Is(world.Put("a", "x"), ErrorKind::kOutcomeUnknown));
  EXPECT_EQ(world.Inner("a"), "x");
  // A call that failed by itself says so.
  EXPECT_TRUE(Is(world.Put("a", "y"), ErrorKind::kAlreadyExists));
}

TEST(FaultStore, NotLandedAndTheAnswerIsLost) {
  Faulty world;
  world.store.AddRule(
      {.operation = StoreOperation::kFinish, .action = FaultAction::kNotLandedAnswerLost});
  EXPECT_TRUE(Is(world.Put("a", "x"), ErrorKind::kOutcomeUnknown));
  EXPECT_EQ(world.Inner("a"), "(none)");
}

TEST(FaultStore, TornWriteIsNeverVisible) {
  Faulty world;
  world.store.AddRule({.action = FaultAction::kTorn, .torn_bytes = 2});
  EXPECT_TRUE(Is(world.Put("a", "whole"), ErrorKind::kUnavailable));
  EXPECT_EQ(world.Inner("a"), "(none)");
}

TEST(FaultStore, TornWriteOfALyingStoreIsVisible) {
  Faulty world;
  world.store.AddRule({.nth = 1, .action = FaultAction::kTornVisible, .torn_bytes = 2});
  EXPECT_TRUE(world.Put("a", "whole").ok());
  EXPECT_EQ(world.Inner("a"), "wh");
  EXPECT_TRUE(world.Put("b", "whole").ok());
  EXPECT_EQ(world.Inner("b"), "whole");
}

TEST(FaultStore, DelayGoesThroughTheCallback) {
  Faulty world;
  world.store.AddRule({.operation = StoreOperation::kAppend,
                       .action = FaultAction::kDelay,
                       .delay = std::chrono::seconds(3)});
  EXPECT_TRUE(world.Put("a", "x").ok());
  ASSERT_EQ(world.slept.size(), 1u);
  EXPECT_EQ(world.slept[0], std::chrono::seconds(3));
}

TEST(FaultStore, GlobsMatchWholeNames) {
  Faulty world;
  world.store.AddRule({.operation = StoreOperation::kFinish, .name_glob = "a?/*.lance"});
  EXPECT_FALSE(world.Put("ab/x/y.lance", "x").ok());
  EXPECT_FALSE(world.Put("ab/.lance.lance", "x").ok());
  EXPECT_TRUE(world.Put("ab/y.lance2", "x").ok());
  EXPECT_TRUE(world.Put("a/y.lance", "x").ok());
  EXPECT_TRUE(world.Put("xab/y.lance", "x").ok());
}

TEST(FaultStore, ReadsFailPerObject) {
  Faulty world;
  ASSERT_TRUE(world.Put("a", "x").ok());
  const auto reader = world.store.Open("a").ValueOrDie();
  world.store.AddRule({.operation = StoreOperation::kRead, .name_glob = "a", .nth = 1});
  EXPECT_TRUE(Is(reader->ReadRange(0, 1).status(), ErrorKind::kUnavailable));
  EXPECT_TRUE(reader->ReadRange(0, 1).ok());
}

class CountingSink final : public env::MetricsSink {
 public:
  struct Value final : env::Counter {
    void Add(double amount) override { total += amount; }
    double total = 0;
  };

  env::Counter& GetCounter(std::string_view name, std::string_view,
                           const env::Labels& labels) override {
    std::string key(name);
    for (const auto& [label, value] : labels) key += fmt::format(",{}={}", label, value);
    return values[key];
  }
  env::Gauge& GetGauge(std::string_view name, std::string_view help,
                       const env::Labels& labels) override {
    return env::NullMetrics().GetGauge(name, help, labels);
  }
  env::Histogram& GetHistogram(std::string_view name, std::string_view help,
                               const env::Labels& labels) override {
    return env::NullMetrics().GetHistogram(name, help, labels);
  }

  std::map<std::string, Value> values;
};

TEST(MeteredStore, CountsOperationsAndBytes) {
  MemoryStore inner;
  CountingSink sink;
  MeteredStore store(inner, sink);
  ASSERT_TRUE(store.Put("a", Bytes("12345"), PutMode::kIfAbsent).ok());
  EXPECT_FALSE(store.Put("a", Bytes("12345"), PutMode::kIfAbsent).ok());
  ASSERT_TRUE(store.GetRange("a", 1, 3).ok());
  EXPECT_FALSE(store.Head("b").ok());
  EXPECT_EQ(sink.values["object_store_operations_total,operation=finish,result=ok"].total, 1);
  EXPECT_EQ(
      sink.values["object_store_operations_total,operation=finish,result=already_exists"].total, 1);
  EXPECT_EQ(sink.values["object_store_operations_total,operation=head,result=not_found"].total, 1);
  EXPECT_EQ(sink.values["object_store_bytes_total,direction=write"].total, 10);
  EXPECT_EQ(sink.values["object_store_bytes_total,direction=read"].total, 3);
}

}  // namespace
}  // namespace sarissa::object_store
