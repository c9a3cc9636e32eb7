// The shard writer through its public interface: appends, flushes, reopening.
#include "memwal/shard_writer.h"

#include <gtest/gtest.h>

#include <set>

#include "env/sim/sim_env.h"
#include "memwal/position_sidecar.h"
#include "tests/memwal/shard_world.h"

namespace sarissa::memwal {
namespace {

using ShardWriterTest = ShardWorld;

TEST_F(ShardWriterTest, AnAppendIsInTheLogAndVisibleWhenItCompletes) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}, {"b", 2}}).ok());
  EXPECT_EQ(LogPositions(), std::vector<LogPosition>{LogPosition(1)});
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"a", 1}, {"b", 2}}));
}

// The first open writes no sentinel; each later one writes exactly one, before it replays.
TEST_F(ShardWriterTest, ReopeningReplaysTheLogAndFencesThePredecessor) {
  auto first = Open();
  ASSERT_TRUE(AppendAndWait(*first, {{"a", 1}}).ok());
  const auto second = Open();
  EXPECT_EQ(second->epoch(), Epoch(2));
  EXPECT_EQ(Rows(*second), (std::map<std::string, int64_t>{{"a", 1}}));
  EXPECT_EQ(LogPositions().size(), 2u);

  const Status refused = AppendAndWait(*first, {{"a", 9}});
  EXPECT_TRUE(Is(refused, ErrorKind::kFenced)) << refused;
  EXPECT_EQ(first->state(), WriterState::kFenced);
  EXPECT_FALSE(first->View().owned) << "a fenced writer shows nothing of its own";
  EXPECT_TRUE(Is(AppendAndWait(*first, {{"a", 9}}), ErrorKind::kFenced)) << "and stays fenced";
  EXPECT_EQ(Rows(*second), (std::map<std::string, int64_t>{{"a", 1}}));
  EXPECT_TRUE(Is(SealAndWait(*first).status(), ErrorKind::kFenced));
}

TEST_F(ShardWriterTest, ReplayAddsNothingToTheLogButItsSentinel) {
  {
    const auto writer = Open();
    ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  }
  for (size_t opened = 2; opened < 5; ++opened) {
    const auto writer = Open();
    EXPECT_EQ(LogPositions().size(), opened);
    EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"a", 1}}));
  }
}

TEST_F(ShardWriterTest, WhatQueuesUpWhileTheLogIsWrittenGoesIntoOneEntry) {
  const auto writer = Open();
  std::mutex mutex;
  std::condition_variable change;
  bool first_is_held = false;
  bool go_on = false;
  SyncPoints::Instance().Arm("log.before_put", [&] {
    std::unique_lock lock(mutex);
    first_is_held = true;
    change.notify_all();
    change.wait(lock, [&] { return go_on; });
  });
  std::vector<env::Future<AppendResult>> answers = {Append(*writer, {{"first", 1}})};
  {
    std::unique_lock lock(mutex);
    change.wait(lock, [&] { return first_is_held; });
  }
  for (int i = 0; i < 20; ++i) answers.push_back(Append(*writer, {{fmt::format("k{}", i), i}}));
  {
    const std::scoped_lock lock(mutex);
    go_on = true;
    change.notify_all();
  }
  for (const auto& answer : answers) ASSERT_TRUE(answer.Wait(kWait).ok());
  EXPECT_EQ(LogPositions().size(), 2u)
      << "one entry for the first, one for the twenty that came meanwhile";
  EXPECT_EQ(Rows(*writer).size(), 21u);
}

TEST_F(ShardWriterTest, AFlushMakesAGenerationThatALaterOpenShows) {
  {
    const auto writer = Open();
    ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}, {"b", 1}, {"a", 2}}).ok());
    const auto outcome = SealAndWait(*writer);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->generation, Generation(1));
    EXPECT_EQ(outcome->rows, 3u);
    ASSERT_TRUE(AppendAndWait(*writer, {{"c", 3}}).ok());
    EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"a", 2}, {"b", 1}, {"c", 3}}));
  }
  const ShardManifest manifest = Manifest();
  EXPECT_EQ(manifest.current_generation(), 2u);
  EXPECT_EQ(manifest.replay_after_wal_entry_position(), 1u);
  ASSERT_EQ(manifest.sstables_size(), 1);
  EXPECT_EQ(manifest.sstables(0).physical_rows(), 3u);
  const auto sidecar =
      store_
          .Get(ShardPrefix("t", shard_) + manifest.sstables(0).path() + "/" + kPositionSidecarName)
          .ValueOrDie();
  const auto positions =
      DecodePositionSidecar({sidecar->data(), static_cast<size_t>(sidecar->size())});
  EXPECT_EQ(positions, (std::vector<RowPositions>{{LogPosition(1), 0, 3}}));
  const auto writer = Open();
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"a", 2}, {"b", 1}, {"c", 3}}));
}

TEST_F(ShardWriterTest, SealingNothingIsFreeAndCompletes) {
  const auto writer = Open();
  const SealFence fence = writer->Seal();
  EXPECT_FALSE(fence.sealed_generation());
  EXPECT_TRUE(fence.Wait(*posix_.env().storage).Wait(kWait).ok());
  EXPECT_EQ(Manifest().sstables_size(), 0);
}

TEST_F(ShardWriterTest, AFullMemtableIsFlushedWithoutBeingAsked) {
  ShardOptions options = Options();
  options.memtable_rows = 5;
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  for (int i = 0; i < 12; ++i)
    ASSERT_TRUE(AppendAndWait(*writer, {{fmt::format("k{}", i), i}}).ok());
  ASSERT_TRUE(SealAndWait(*writer).ok());
  EXPECT_GE(Manifest().sstables_size(), 3);
  EXPECT_EQ(Rows(*writer).size(), 12u);
}

TEST_F(ShardWriterTest, AFenceCoversAnOlderGenerationThatIsStillPending) {
  ShardOptions options = Options();
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  const auto rule = store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*_gen_*"});
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  const auto first = writer->Seal().Wait(*posix_.env().storage);
  const SealFence empty = writer->Seal();
  EXPECT_FALSE(empty.sealed_generation());
  const auto second = empty.Wait(*posix_.env().storage);
  EXPECT_FALSE(second.IsReady());
  EXPECT_EQ(Rows(*writer).size(), 1u) << "rows of a failing flush stay readable";
  store_.RemoveRule(rule);
  EXPECT_TRUE(first.Wait(kWait).ok());
  EXPECT_TRUE(second.Wait(kWait).ok());
  EXPECT_EQ(Manifest().sstables_size(), 1);
}

TEST_F(ShardWriterTest, AFlushThatFailsForGoodFailsTheShardAndAReopenHeals) {
  ShardOptions options = Options();
  options.flush_fail_deadline = std::chrono::milliseconds(20);
  {
    const auto writer = ShardWriter::Open(options).ValueOrDie();
    store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*_gen_*"});
    ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
    EXPECT_TRUE(Is(SealAndWait(*writer).status(), ErrorKind::kFailedWriter));
    EXPECT_EQ(writer->state(), WriterState::kFailed);
    EXPECT_TRUE(Is(AppendAndWait(*writer, {{"b", 1}}), ErrorKind::kFailedWriter));
    EXPECT_TRUE(Is(SealAndWait(*writer).status(), ErrorKind::kFailedWriter))
        << "a failure that settled stays";
    EXPECT_EQ(Rows(*writer).size(), 1u) << "reads go on";
    const auto report = writer->Close().Wait(kWait);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->only_in_log, std::vector<Generation>{Generation(1)});
  }
  store_.ClearRules();
  const auto writer = Open();
  EXPECT_EQ(Rows(*writer).size(), 1u);
  EXPECT_TRUE(SealAndWait(*writer).ok());
}

TEST_F(ShardWriterTest, AGenerationIsNeverPassedByALaterOne) {
  ShardOptions options = Options();
  options.memtable_rows = 2;
  {
    const auto writer = ShardWriter::Open(options).ValueOrDie();
    store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*_gen_1/*"});
    for (int i = 0; i < 8; ++i)
      ASSERT_TRUE(AppendAndWait(*writer, {{fmt::format("k{}", i), i}}).ok());
    const ShardManifest manifest = Manifest();
    EXPECT_EQ(manifest.sstables_size(), 0);
    EXPECT_EQ(manifest.replay_after_wal_entry_position(), 0u);
    EXPECT_EQ(Rows(*writer).size(), 8u);
  }
  store_.ClearRules();
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  EXPECT_EQ(Rows(*writer).size(), 8u);
  ASSERT_TRUE(SealAndWait(*writer).ok());
  uint64_t last = 0;
  const ShardManifest manifest = Manifest();
  for (const auto& generation : manifest.sstables()) {
    EXPECT_EQ(generation.generation(), last + 1);
    last = generation.generation();
  }
}

TEST_F(ShardWriterTest, AFailingLogIsRetriedAtTheSamePosition) {
  const auto writer = Open();
  for (const uint64_t n : {1, 2}) {
    store_.AddRule({.operation = StoreOperation::kFinish,
                    .name_glob = "*/wal/*",
                    .nth = n,
                    .action = FaultAction::kNotLandedAnswerLost,
                    .status = MakeError(ErrorKind::kUnavailable, "no answer")});
  }
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  EXPECT_EQ(LogPositions(), std::vector<LogPosition>{LogPosition(1)});
}

TEST_F(ShardWriterTest, ALostAnswerOfALandedEntryIsRecognisedAsOurs) {
  const auto writer = Open();
  store_.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*/wal/*",
                  .nth = 1,
                  .action = FaultAction::kLandedAnswerLost});
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  ASSERT_TRUE(AppendAndWait(*writer, {{"b", 2}}).ok());
  EXPECT_EQ(LogPositions().size(), 2u);
  EXPECT_EQ(Rows(*Open()), (std::map<std::string, int64_t>{{"a", 1}, {"b", 2}}));
}

TEST_F(ShardWriterTest, ALogThatStaysSilentEndsTheWriterAndWakesEveryWaiter) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*/wal/*"});
  std::vector<env::Future<AppendResult>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(Append(*writer, {{fmt::format("k{}", i), i}}));
  for (const auto& answer : answers) {
    const auto result = answer.Wait(kWait);
    EXPECT_TRUE(Is(result.status(), ErrorKind::kFailedWriter)) << result.status();
  }
  EXPECT_EQ(writer->state(), WriterState::kFailed);
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"a", 1}}))
      << "what is not in the log is not shown";
  store_.ClearRules();
  EXPECT_EQ(Rows(*Open()), (std::map<std::string, int64_t>{{"a", 1}}));
}

TEST_F(ShardWriterTest, AFullDiskRefusesTheAppendAndTheWriterLives) {
  const auto writer = Open();
  const auto rule = store_.AddRule({.operation = StoreOperation::kFinish,
                                    .name_glob = "*/wal/*",
                                    .status = MakeError(ErrorKind::kNoSpace, "disk full")});
  EXPECT_TRUE(Is(AppendAndWait(*writer, {{"a", 1}}), ErrorKind::kNoSpace));
  store_.RemoveRule(rule);
  EXPECT_TRUE(AppendAndWait(*writer, {{"a", 2}}).ok());
  EXPECT_EQ(LogPositions(), std::vector<LogPosition>{LogPosition(1)});
}

TEST_F(ShardWriterTest, AHoleInTheLogIsRefusedBeforeTheClaim) {
  {
    const auto writer = Open();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(AppendAndWait(*writer, {{"k", i}}).ok());
  }
  ASSERT_TRUE(store_.Delete(LogEntryName("t", shard_, LogPosition(2))).ok());
  const auto opened = ShardWriter::Open(Options());
  EXPECT_TRUE(Is(opened.status(), ErrorKind::kCorrupt)) << opened.status();
  EXPECT_EQ(Manifest().writer_epoch(), 1u);
}

TEST_F(ShardWriterTest, ADamagedEntryIsRefusedByName) {
  {
    const auto writer = Open();
    ASSERT_TRUE(AppendAndWait(*writer, {{"k", 1}}).ok());
  }
  const std::string name = LogEntryName("t", shard_, LogPosition(1));
  std::string bytes = store_.Get(name).ValueOrDie()->ToString();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(store_
                  .Put(name, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                       object_store::PutMode::kOverwrite)
                  .ok());
  const auto opened = ShardWriter::Open(Options());
  EXPECT_TRUE(Is(opened.status(), ErrorKind::kCorrupt));
  EXPECT_NE(opened.status().message().find(name), std::string::npos) << opened.status();
}

TEST_F(ShardWriterTest, CloseFlushesWhatIsLeftAndRefusesMore) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  const auto last = Append(*writer, {{"b", 2}});
  const auto report = writer->Close().Wait(kWait);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->only_in_log.empty());
  EXPECT_TRUE(last.Wait(kWait).ok()) << "queued before the close";
  EXPECT_TRUE(Is(AppendAndWait(*writer, {{"c", 3}}), ErrorKind::kCancelled));
  EXPECT_EQ(Manifest().replay_after_wal_entry_position(), LogPositions().back().value());
}

TEST_F(ShardWriterTest, AnAppendIntoADeletedShardIsNotAcknowledged) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  ASSERT_TRUE(store_.DeletePrefix("t/").ok());
  EXPECT_TRUE(Is(AppendAndWait(*writer, {{"b", 2}}), ErrorKind::kNotFound));
  EXPECT_EQ(LogPositions(), std::vector<LogPosition>())
      << "an entry without a shard would be in the way of the table that is made next";
}

// Four openers at once: exactly the highest epoch is live, and whatever any of them acknowledged is
// replayed.
TEST_F(ShardWriterTest, OfSeveralOpenersOnlyTheLastMayAcknowledge) {
  std::vector<env::Future<env::Unit>> done;
  std::mutex mutex;
  std::set<std::string> acknowledged;
  for (int opener = 0; opener < 4; ++opener) {
    auto promise = std::make_shared<env::Promise<env::Unit>>();
    done.push_back(promise->future());
    posix_.env().storage->Post([&, opener, promise] {
      const auto writer = ShardWriter::Open(Options());
      if (!writer.ok()) return promise->Set(env::Unit{});
      const std::string key = fmt::format("opener{}", opener);
      Append(**writer, {{key, opener}})
          .Then(*posix_.env().cpu, [&, key, promise, keep = *writer](const auto& result) {
            if (result.ok()) {
              const std::scoped_lock lock(mutex);
              acknowledged.insert(key);
            }
            promise->Set(env::Unit{});
          });
    });
  }
  for (const auto& one : done) ASSERT_TRUE(one.Wait(kWait).ok());
  const auto rows = Rows(*Open());
  for (const std::string& key : acknowledged) EXPECT_TRUE(rows.contains(key)) << key;
}

TEST_F(ShardWriterTest, AnAppendWaitsForNoTimer) {
  env::SimScheduler scheduler(1);
  env::SimDisk disk;
  env::SimEnv process(scheduler, disk, {});
  ShardOptions options = Options();
  options.env = &process.env();
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  const env::MonotonicTime start = process.env().clock->Now();
  for (int i = 0; i < 3; ++i) {
    const auto answer = Append(*writer, {{"a", i}});
    scheduler.RunUntil([&] { return answer.IsReady(); });
    ASSERT_TRUE(answer.IsReady() && answer.Get().ok());
  }
  EXPECT_EQ(process.env().clock->Now(), start);
  process.Kill();
}

TEST_F(ShardWriterTest, RowsAreChargedWithTheirIndexAndAfterAReplayToo) {
  env::MemoryBudget& budget = *posix_.env().budget;
  KeyedRows rows;
  for (int i = 0; i < 100; ++i) rows.emplace_back(fmt::format("k{}", i), i);
  const int64_t index = static_cast<int64_t>(rows.size()) * kIndexBytesPerRow;
  const auto batch = StorageBatch(rows);
  const auto writer = Open();
  const int64_t before = budget.used();
  ASSERT_TRUE(writer->Append({batch}, budget.Force(PinnedBytes(*batch))).Wait(kWait).ok());
  EXPECT_EQ(budget.used() - before, PinnedBytes(*batch) + index);
  EXPECT_EQ(writer->Health().unflushed_bytes, PinnedBytes(*batch) + index);
  const int64_t written = budget.used();
  const auto again = Open();
  EXPECT_GT(budget.used(), written);
}

}  // namespace
}  // namespace sarissa::memwal
