// Seal fences: what a wait for a flush covers, and that it ends with the truth. Names in the
// comments are the invariants of docs/reliability.md.
#include "memwal/seal_fence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "env/sim/sim_env.h"
#include "tests/memwal/shard_world.h"

namespace sarissa::memwal {
namespace {

class SealFenceTest : public ShardWorld {
 protected:
  env::Future<FlushOutcome> Wait(const SealFence& fence) {
    return fence.Wait(*posix_.env().storage);
  }
  object_store::FaultStore::RuleId FailGenerations(const std::string& glob, ErrorKind kind) {
    return store_.AddRule({.operation = StoreOperation::kCreate,
                           .name_glob = glob,
                           .status = MakeError(kind, "the generation cannot be written")});
  }
};

// M18
TEST_F(SealFenceTest, ForceSealActiveAndWaitForFlushDrain) {
  const auto writer = Open();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(AppendAndWait(*writer, {{fmt::format("k{}", i), i}}).ok());
  Gate gate("flush.after_data");
  const SealFence fence = writer->Seal();
  EXPECT_EQ(fence.sealed_generation(), Generation(1));
  const auto flushed = Wait(fence);
  gate.AwaitArrival();
  EXPECT_FALSE(flushed.IsReady()) << "the manifest does not name the generation yet";
  EXPECT_EQ(Manifest().sstables_size(), 0);
  EXPECT_EQ(writer->View().memtables.back().generation(), Generation(2));
  EXPECT_EQ(writer->View().memtables.back().rows(), 0u);
  gate.Open();
  const auto outcome = flushed.Wait(kWait);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->generation, Generation(1));
  EXPECT_EQ(outcome->rows, 10u);
  EXPECT_EQ(Manifest().sstables_size(), 1);
}

// M19
TEST_F(SealFenceTest, FencesPendingGenerationWhenActiveIsEmpty) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  Gate gate("flush.after_data");
  const auto first = Wait(writer->Seal());
  gate.AwaitArrival();
  const SealFence empty = writer->Seal();
  EXPECT_FALSE(empty.sealed_generation());
  const auto second = Wait(empty);
  EXPECT_FALSE(second.IsReady()) << "an older generation is still on its way";
  gate.Open();
  ASSERT_TRUE(first.Wait(kWait).ok());
  const auto outcome = second.Wait(kWait);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->rows, 1u);
}

// M20: somebody else's progress in the manifest says nothing about our flush.
TEST_F(SealFenceTest, FenceIgnoresManifestGenerationAdvance) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  Gate gate("flush.after_data");
  const auto flushed = Wait(writer->Seal());
  gate.AwaitArrival();
  const ShardManifestStore manifests(memory_, "t", shard_);
  ASSERT_TRUE(manifests
                  .Commit(writer->epoch(), {},
                          [](ShardManifest& manifest) {
                            manifest.set_current_generation(manifest.current_generation() + 2);
                            return Status::OK();
                          })
                  .ok());
  const auto again = Wait(writer->Seal());
  EXPECT_FALSE(flushed.IsReady());
  EXPECT_FALSE(again.IsReady());
  gate.Open();
  EXPECT_TRUE(Is(flushed.Wait(kWait).status(), ErrorKind::kFailedWriter))
      << "a generation that does not follow the manifest is refused, never renumbered";
  EXPECT_FALSE(again.Wait(kWait).ok());
}

// M21, while it is retried
TEST_F(SealFenceTest, AFenceTakenAfterAFailureWaitsForTheFailedGenerationToo) {
  const auto writer = Open();
  const auto rule = FailGenerations("*_gen_1/*", ErrorKind::kUnavailable);
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  (void)writer->Seal();
  while (writer->Health().flush_failures < 2) std::this_thread::yield();
  ASSERT_TRUE(AppendAndWait(*writer, {{"b", 1}}).ok());
  const auto later = Wait(writer->Seal());
  const uint64_t failures = writer->Health().flush_failures;
  while (writer->Health().flush_failures < failures + 2) std::this_thread::yield();
  EXPECT_FALSE(later.IsReady()) << "generation 2 must not be confirmed before generation 1";
  EXPECT_FALSE(writer->Health().flush_trouble.ok());
  EXPECT_EQ(Manifest().sstables_size(), 0);
  store_.RemoveRule(rule);
  const auto outcome = later.Wait(kWait);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->rows, 2u);
  EXPECT_EQ(Manifest().sstables_size(), 2);
  EXPECT_TRUE(writer->Health().flush_trouble.ok());
}

// M21, settled
TEST_F(SealFenceTest, SettledPredecessorFailureIsSticky) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  const auto rule = FailGenerations("*_gen_1/*", ErrorKind::kIo);
  const auto failed = Wait(writer->Seal()).Wait(kWait);
  ASSERT_TRUE(Is(failed.status(), ErrorKind::kFailedWriter)) << failed.status();
  store_.RemoveRule(rule);
  for (int i = 0; i < 3; ++i) {
    const SealFence fence = writer->Seal();
    EXPECT_FALSE(fence.sealed_generation());
    EXPECT_TRUE(Is(Wait(fence).Wait(kWait).status(), ErrorKind::kFailedWriter));
  }
  EXPECT_TRUE(Is(AppendAndWait(*writer, {{"b", 1}}), ErrorKind::kFailedWriter));
  const auto healed = Open();
  EXPECT_EQ(Rows(*healed).size(), 1u);
  EXPECT_TRUE(SealAndWait(*healed).ok());
}

// M22: a worker that stops completes every waiter.
TEST_F(SealFenceTest, HandlerExitEndsEveryWait) {
  auto process = std::make_unique<env::PosixEnv>();
  ShardOptions options = Options();
  options.env = &process->env();
  options.flush_retry_delay = std::chrono::hours(1);
  options.flush_retry_delay_max = std::chrono::hours(1);
  options.flush_fail_deadline = std::chrono::hours(9);
  auto writer = ShardWriter::Open(options).ValueOrDie();
  FailGenerations("*_gen_*", ErrorKind::kUnavailable);
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  const SealFence fence = writer->Seal();
  while (writer->Health().flush_failures == 0) std::this_thread::yield();
  const auto waiting = Wait(fence);
  const auto closing = writer->Close();
  writer.reset();
  process.reset();  // drops the timer that would have tried again, and with it the writer
  EXPECT_TRUE(Is(waiting.Wait(kWait).status(), ErrorKind::kCancelled));
  EXPECT_TRUE(Is(closing.Wait(kWait).status(), ErrorKind::kCancelled));
}

// M22, the other way round: after the executor stopped nothing waits for a task that never runs.
TEST_F(SealFenceTest, AStoppedExecutorRefusesAppendsAndSeals) {
  env::SimScheduler scheduler(1);
  env::SimDisk disk;
  env::SimEnv process(scheduler, disk, {});
  ShardOptions options = Options();
  options.env = &process.env();
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  const auto before = Append(*writer, {{"a", 1}});
  scheduler.RunUntilIdle();
  ASSERT_TRUE(before.IsReady() && before.Get().ok());
  process.Kill();
  const auto refused = Append(*writer, {{"b", 1}});
  ASSERT_TRUE(refused.IsReady());
  EXPECT_TRUE(Is(refused.Get().status(), ErrorKind::kCancelled)) << refused.Get().status();
  const auto fence = Wait(writer->Seal()).Wait(kWait);
  EXPECT_FALSE(fence.ok());
  const auto closed = writer->Close();
  ASSERT_TRUE(closed.IsReady());
  EXPECT_EQ(closed.Get()->only_in_log, std::vector<Generation>{Generation(1)});
}

// M23
TEST_F(SealFenceTest, TheSetIsFixedWhenTheSealTakesTheLock) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  const auto first = Wait(writer->Seal());
  FailGenerations("*_gen_2/*", ErrorKind::kUnavailable);
  ASSERT_TRUE(AppendAndWait(*writer, {{"b", 1}}).ok());
  const auto later = Wait(writer->Seal());
  ASSERT_TRUE(first.Wait(kWait).ok()) << "a newer generation that fails does not extend it";
  while (writer->Health().flush_failures < 2) std::this_thread::yield();
  EXPECT_FALSE(later.IsReady());
  store_.ClearRules();
  EXPECT_TRUE(later.Wait(kWait).ok());
}

// Four writers, one flusher: every flush ends and covers what was acknowledged before it began.
TEST_F(SealFenceTest, TwoHundredFlushesUnderWritesEachCoverWhatWasAcknowledgedBefore) {
  constexpr int kFlushes = 200;
  const auto writer = Open();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> acknowledged{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; !stop; ++i) {
        ASSERT_TRUE(AppendAndWait(*writer, {{fmt::format("c{}-{}", client, i), i}}).ok());
        ++acknowledged;
      }
    });
  }
  for (int flush = 0; flush < kFlushes; ++flush) {
    const uint64_t before = acknowledged;
    const auto outcome = SealAndWait(*writer);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    uint64_t flushed = 0;
    const ShardManifest manifest = Manifest();
    for (const auto& generation : manifest.sstables()) flushed += generation.physical_rows();
    ASSERT_GE(flushed, before) << "flush " << flush;
  }
  stop = true;
  for (auto& client : clients) client.join();
}

}  // namespace
}  // namespace sarissa::memwal
