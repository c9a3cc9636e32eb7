// Failures that stick, and waits that end: the log that fails, the answer that is lost, the flush
// that fails, the close. Names in the comments are the invariants of docs/reliability.md.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/memwal/shard_world.h"

namespace sarissa::memwal {
namespace {

class WriterFailure : public ShardWorld {};

// M12: the log holds the puts in their order, whatever froze in between.
TEST_F(WriterFailure, TheLogsOrderIsTheOrderOfTheAppends) {
  const auto writer = Open();
  Gate gate("log.before_put");
  std::vector<env::Future<AppendResult>> answers = {Append(*writer, {{"k", 0}})};
  gate.AwaitArrival();
  for (int i = 1; i < 30; ++i) {
    answers.push_back(Append(*writer, {{"k", i}}));
    if (i % 7 == 0) (void)writer->Seal();
  }
  gate.Open();
  for (const auto& answer : answers) ASSERT_TRUE(answer.Wait(kWait).ok());
  ShardLog log(memory_, "t", shard_);
  int64_t expected = 0;
  for (const LogPosition position : LogPositions()) {
    const auto entry = *log.Read(position).ValueOrDie();
    for (const auto& batch : entry.batches) {
      const auto& values = static_cast<const arrow::Int64Array&>(*batch->column(1));
      for (int64_t row = 0; row < batch->num_rows(); ++row)
        EXPECT_EQ(values.Value(row), expected++);
    }
  }
  EXPECT_EQ(expected, 30);
  EXPECT_EQ(Rows(*Open()), (std::map<std::string, int64_t>{{"k", 29}}));
}

// M14, M15: a put of three batches is seen whole or not at all, and every put returns.
TEST_F(WriterFailure, AnAppendsBatchesAppearTogether) {
  const auto writer = Open();
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      uint32_t rows = 0;
      for (const auto& memtable : writer->View().memtables) rows += memtable.rows();
      EXPECT_EQ(rows % 3, 0u);
    }
  });
  for (int i = 0; i < 200; ++i) {
    const std::string key = fmt::format("k{}", i);
    const auto answer = writer->Append(
        {StorageBatch({{key, 1}}), StorageBatch({{key, 2}}), StorageBatch({{key + "'", 3}})}, {});
    ASSERT_TRUE(answer.Wait(kWait).ok());
  }
  stop = true;
  reader.join();
}

// M40: what is not in the log yet is not shown, and hides nothing.
TEST_F(WriterFailure, AnAppendThatIsNotDurableYetHidesNothing) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"k", 1}}).ok());
  Gate gate("log.before_put");
  const auto pending = Append(*writer, {{"k", 2}});
  gate.AwaitArrival();
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"k", 1}}));
  gate.Open();
  ASSERT_TRUE(pending.Wait(kWait).ok());
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"k", 2}}));
}

// M16
TEST_F(WriterFailure, ALogThatFailsTwiceHealsOneThatFailsFourTimesPoisons) {
  for (const uint64_t failures : {2, 4}) {
    memory_.DeletePrefix("t/").ok();
    const auto writer = Open();
    for (uint64_t n = 1; n <= failures; ++n)
      store_.AddRule({.operation = StoreOperation::kCreate,
                      .name_glob = "*/wal/*",
                      .nth = n,
                      .status = MakeError(ErrorKind::kUnavailable, "the store is silent")});
    const Status answer = AppendAndWait(*writer, {{"a", 1}});
    if (failures == 2) {
      EXPECT_TRUE(answer.ok()) << answer;
      EXPECT_EQ(LogPositions(), std::vector<LogPosition>{LogPosition(1)});
    } else {
      EXPECT_TRUE(Is(answer, ErrorKind::kFailedWriter)) << answer;
      EXPECT_TRUE(Is(AppendAndWait(*writer, {{"b", 1}}), ErrorKind::kFailedWriter));
      EXPECT_EQ(writer->Health().state, WriterState::kFailed) << "its health still answers";
      EXPECT_TRUE(LogPositions().empty()) << "nothing at the next position either";
    }
    store_.ClearRules();
  }
}

// M17: the entry landed, and the store never says so.
TEST_F(WriterFailure, AnAppendWhoseOutcomeStaysUnknownPoisonsAndAReopenTells) {
  for (const bool landed : {true, false}) {
    memory_.DeletePrefix("t/").ok();
    {
      const auto writer = Open();
      ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
      store_.AddRule(
          {.operation = StoreOperation::kFinish,
           .name_glob = "*/wal/*",
           .action = landed ? FaultAction::kLandedAnswerLost : FaultAction::kNotLandedAnswerLost});
      store_.AddRule({.operation = StoreOperation::kOpen, .name_glob = "*/wal/*"});
      Gate gate("log.before_put");
      const auto unknown = Append(*writer, {{"unknown", 1}});
      gate.AwaitArrival();
      const auto queued = Append(*writer, {{"queued", 2}});
      gate.Open();
      EXPECT_TRUE(Is(unknown.Wait(kWait).status(), ErrorKind::kOutcomeUnknown));
      EXPECT_TRUE(Is(queued.Wait(kWait).status(), ErrorKind::kFailedWriter)) << "it never began";
      EXPECT_EQ(writer->state(), WriterState::kFailed);
      EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"a", 1}}))
          << "what may not be in the log is not shown";
      EXPECT_TRUE(Is(AppendAndWait(*writer, {{"c", 3}}), ErrorKind::kFailedWriter));
    }
    SyncPoints::Instance().Clear();
    store_.ClearRules();
    const auto rows = Rows(*Open());
    EXPECT_EQ(rows.contains("unknown"), landed);
    EXPECT_FALSE(rows.contains("queued"));
  }
}

// The entry landed; only the look at the epoch fails. It is tried again, then the writer gives up.
TEST_F(WriterFailure, AnEpochThatCannotBeReadAgainIsNotAnAcknowledgement) {
  const auto writer = Open();
  const auto rule = store_.AddRule({.operation = StoreOperation::kHead,
                                    .name_glob = "*/manifest/*",
                                    .nth = 1,
                                    .status = MakeError(ErrorKind::kUnavailable, "silent")});
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  EXPECT_EQ(LogPositions().size(), 1u) << "the entry is not written twice";
  store_.RemoveRule(rule);
  store_.AddRule({.operation = StoreOperation::kHead,
                  .name_glob = "*/manifest/*",
                  .status = MakeError(ErrorKind::kUnavailable, "silent")});
  EXPECT_TRUE(Is(AppendAndWait(*writer, {{"b", 1}}), ErrorKind::kOutcomeUnknown));
  EXPECT_EQ(writer->state(), WriterState::kFailed);
  EXPECT_FALSE(Rows(*writer).contains("b"));
  store_.ClearRules();
  EXPECT_TRUE(Rows(*Open()).contains("b")) << "it was in the log all along";
}

// M24
TEST_F(WriterFailure, GenerationsReachTheManifestInOrderAfterTheTroubleHeals) {
  ShardOptions options = Options();
  options.memtable_rows = 1;
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  const auto rule =
      store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*_gen_1/*"});
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(AppendAndWait(*writer, {{fmt::format("k{}", i), i}}).ok());
  while (writer->Health().flush_failures < 3) std::this_thread::yield();
  EXPECT_EQ(Manifest().current_generation(), 1u);
  EXPECT_EQ(Manifest().replay_after_wal_entry_position(), 0u);
  store_.RemoveRule(rule);
  ASSERT_TRUE(SealAndWait(*writer).ok());
  const ShardManifest manifest = Manifest();
  ASSERT_EQ(manifest.sstables_size(), 3);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(manifest.sstables(i).generation(), static_cast<uint64_t>(i + 1));
  EXPECT_EQ(manifest.replay_after_wal_entry_position(), 3u);
}

// M25
TEST_F(WriterFailure, AFailingFlushKeepsItsRowsReadableAndCharged) {
  env::MemoryBudget& budget = *posix_.env().budget;
  const auto writer = Open();
  const int64_t before = budget.used();
  const auto rule = store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*_gen_*"});
  ASSERT_TRUE(writer->Append({StorageBatch({{"a", 1}})}, budget.Force(1000)).Wait(kWait).ok());
  const SealFence fence = writer->Seal();
  while (writer->Health().flush_failures < 2) std::this_thread::yield();
  EXPECT_EQ(writer->Health().frozen_generations, 1u);
  EXPECT_GT(writer->Health().unflushed_bytes, 0);
  EXPECT_GE(budget.used(), before + 1000);
  EXPECT_EQ(Rows(*writer).size(), 1u);
  store_.RemoveRule(rule);
  ASSERT_TRUE(fence.Wait(*posix_.env().storage).Wait(kWait).ok());
  EXPECT_EQ(Rows(*writer).size(), 1u);
}

// M26: a memtable is flushed only when every group that belongs to it is in it.
TEST_F(WriterFailure, AFlushWaitsForTheGroupsOfItsGeneration) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  Gate gate("log.before_insert");
  const auto late = Append(*writer, {{"b", 2}});
  gate.AwaitArrival();
  const auto flushed = writer->Seal().Wait(*posix_.env().storage);
  EXPECT_FALSE(flushed.IsReady());
  EXPECT_EQ(Manifest().sstables_size(), 0);
  gate.Open();
  ASSERT_TRUE(late.Wait(kWait).ok());
  const auto outcome = flushed.Wait(kWait);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->rows, 2u);
  EXPECT_EQ(Manifest().replay_after_wal_entry_position(), 2u);
}

// M28
TEST_F(WriterFailure, ACloseSaysWhatIsOnlyInTheLogAndWhy) {
  const auto fenced = Open();
  ASSERT_TRUE(AppendAndWait(*fenced, {{"a", 1}}).ok());
  const auto owner = Open();
  EXPECT_FALSE(AppendAndWait(*fenced, {{"b", 1}}).ok());
  auto report = fenced->Close().Wait(kWait).ValueOrDie();
  EXPECT_TRUE(Is(report.cause, ErrorKind::kFenced)) << report.cause;
  EXPECT_FALSE(report.only_in_log.empty());

  store_.AddRule({.operation = StoreOperation::kCreate,
                  .name_glob = "*_gen_*",
                  .status = MakeError(ErrorKind::kIo, "EIO")});
  report = owner->Close().Wait(kWait).ValueOrDie();
  EXPECT_TRUE(Is(report.cause, ErrorKind::kFailedWriter)) << report.cause;
  EXPECT_EQ(report.only_in_log, std::vector<Generation>{Generation(1)});
  store_.ClearRules();
  EXPECT_EQ(Rows(*Open()).size(), 1u);
}

TEST_F(WriterFailure, ACloseEndsByItsDeadlineWhileAFlushIsRetried) {
  ShardOptions options = Options();
  options.flush_fail_deadline = std::chrono::hours(1);
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*_gen_*"});
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  (void)writer->Seal();
  ASSERT_TRUE(AppendAndWait(*writer, {{"b", 1}}).ok());
  const auto report =
      writer->Close(CloseMode::kFlush, std::chrono::milliseconds(50)).Wait(kWait).ValueOrDie();
  EXPECT_TRUE(Is(report.cause, ErrorKind::kDeadline)) << report.cause;
  EXPECT_EQ(report.only_in_log, (std::vector<Generation>{Generation(1), Generation(2)}));
  store_.ClearRules();
  EXPECT_EQ(Rows(*Open()).size(), 2u);
}

// M29
TEST_F(WriterFailure, ADiscardingCloseFlushesNothingAndMayBeRepeated) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  ASSERT_TRUE(writer->Close(CloseMode::kDiscard).Wait(kWait).ok());
  ASSERT_TRUE(writer->Close(CloseMode::kDiscard).Wait(kWait).ok());
  EXPECT_EQ(Manifest().sstables_size(), 0);
  EXPECT_TRUE(Is(AppendAndWait(*writer, {{"b", 1}}), ErrorKind::kCancelled));
  EXPECT_EQ(Rows(*Open()).size(), 1u);
}

// M31: an append is never split, so one that is larger than a memtable is a generation of its own.
TEST_F(WriterFailure, AnAppendLargerThanAMemtableIsOneGeneration) {
  ShardOptions options = Options();
  options.memtable_rows = 8;
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  for (const int rows : {9, 8, 3}) {
    KeyedRows many;
    for (int i = 0; i < rows; ++i) many.emplace_back(fmt::format("{}-{}", rows, i), i);
    ASSERT_TRUE(AppendAndWait(*writer, many).ok());
  }
  ASSERT_TRUE(SealAndWait(*writer).ok());
  std::vector<uint64_t> rows;
  const ShardManifest manifest = Manifest();
  for (const auto& generation : manifest.sstables()) rows.push_back(generation.physical_rows());
  EXPECT_EQ(rows, (std::vector<uint64_t>{9, 8, 3}));
}

// A flush during retry meets a higher epoch: terminal, and the successor has the rows.
TEST_F(WriterFailure, AFlushOfAFencedWriterIsRefusedAndItsRowsAreTheSuccessors) {
  const auto writer = Open();
  ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
  Gate gate("flush.after_index");
  const auto flushed = writer->Seal().Wait(*posix_.env().storage);
  gate.AwaitArrival();
  SyncPoints::Instance().Clear();
  const auto successor = Open();
  gate.Open();
  EXPECT_TRUE(Is(flushed.Wait(kWait).status(), ErrorKind::kFenced));
  EXPECT_FALSE(writer->View().owned);
  EXPECT_EQ(Manifest().sstables_size(), 0);
  EXPECT_EQ(Rows(*successor).size(), 1u);
}

TEST_F(WriterFailure, WhatQueuesBehindARefusedAppendIsWritten) {
  const auto writer = Open();
  store_.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*/wal/*",
                  .nth = 1,
                  .status = MakeError(ErrorKind::kNoSpace, "disk full")});
  Gate gate("log.before_put");
  const auto refused = Append(*writer, {{"a", 1}});
  gate.AwaitArrival();
  const auto queued = Append(*writer, {{"b", 1}});
  gate.Open();
  EXPECT_TRUE(Is(refused.Wait(kWait).status(), ErrorKind::kNoSpace));
  EXPECT_TRUE(queued.Wait(kWait).ok());
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"b", 1}}));
}

}  // namespace
}  // namespace sarissa::memwal
