// Claim, sentinel, replay: who owns a shard, and which rows an opener finds. Names in the comments
// are the invariants of docs/reliability.md.
#include <gtest/gtest.h>

#include "tests/memwal/shard_world.h"

namespace sarissa::memwal {
namespace {

class ClaimAndReplay : public ShardWorld {
 protected:
  // As other software appends: one entry, no look at the epoch afterwards.
  ShardLog::Outcome AppendAs(Epoch epoch, LogPosition position, const KeyedRows& rows) {
    ShardLog log(memory_, "t", shard_);
    return log
        .Append(position, {epoch, Generation(1), epoch.value() * 100 + position.value()},
                {StorageBatch(rows)})
        .outcome;
  }
  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(memory_
                    .Put(name, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                         object_store::PutMode::kOverwrite)
                    .ok());
  }
  std::string Read(const std::string& name) { return memory_.Get(name).ValueOrDie()->ToString(); }
  std::string Entry(uint64_t position) { return LogEntryName("t", shard_, LogPosition(position)); }
  // `values` appended one entry each, then the writer is dropped as by a crash.
  void Crashed(int values) {
    const auto writer = Open();
    for (int i = 1; i <= values; ++i)
      ASSERT_TRUE(AppendAndWait(*writer, {{fmt::format("k{}", i), i}}).ok());
  }
  Status OpenFails() {
    const Status status = ShardWriter::Open(Options()).status();
    EXPECT_FALSE(status.ok());
    return status;
  }
};

// M3: the successor's version and epoch are not the caller's to choose.
TEST_F(ClaimAndReplay, ACommitIsTheSuccessorUnderTheOwnersEpoch) {
  const auto writer = Open();
  const ShardManifestStore manifests(memory_, "t", shard_);
  const auto committed = manifests.Commit(writer->epoch(), {}, [](ShardManifest& manifest) {
    manifest.set_version(manifest.version() + 2);
    manifest.set_writer_epoch(77);
    return Status::OK();
  });
  ASSERT_TRUE(committed.ok());
  EXPECT_EQ(committed->version(), 2u);
  EXPECT_EQ(committed->writer_epoch(), 1u);
  EXPECT_TRUE(
      Is(manifests.Commit(Epoch(9), {}, [](ShardManifest&) { return Status::OK(); }).status(),
         ErrorKind::kFenced));
  EXPECT_EQ(Manifest().version(), 2u) << "a refused commit writes nothing";
}

// M4
TEST_F(ClaimAndReplay, APollingReaderSeesEveryCommit) {
  const ShardManifestStore reader(memory_, "t", shard_);
  const auto writer = Open();
  uint64_t version = reader.ReadNewest().ValueOrDie()->version();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(AppendAndWait(*writer, {{"k", i}}).ok());
    ASSERT_TRUE(SealAndWait(*writer).ok());
    const auto seen = reader.ReadNewest(ShardManifestVersion(version)).ValueOrDie();
    EXPECT_EQ(seen->sstables_size(), i + 1);
    EXPECT_GT(seen->version(), version);
    version = seen->version();
  }
}

// M6
TEST_F(ClaimAndReplay, ABenignCommitDoesNotAbortAClaimAHigherEpochDoes) {
  const ShardManifestStore manifests(memory_, "t", shard_);
  ASSERT_TRUE(manifests.Claim(1).ok());
  const FaultRule before_put = {.operation = StoreOperation::kFinish,
                                .name_glob = "*/manifest/*.binpb",
                                .nth = 1,
                                .action = FaultAction::kDelay,
                                .delay = std::chrono::milliseconds(1)};
  object_store::FaultStore benign(memory_, [&](env::Duration) {
    ASSERT_TRUE(manifests
                    .Commit(Epoch(1), {},
                            [](ShardManifest& manifest) {
                              manifest.set_wal_entry_position_last_seen(0);
                              return Status::OK();
                            })
                    .ok());
  });
  benign.AddRule(before_put);
  const auto claimed = ShardManifestStore(benign, "t", shard_).Claim(2);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->writer_epoch(), 2u);

  object_store::FaultStore rival(memory_,
                                 [&](env::Duration) { ASSERT_TRUE(manifests.Claim(3).ok()); });
  rival.AddRule(before_put);
  EXPECT_TRUE(Is(ShardManifestStore(rival, "t", shard_).Claim(4).status(), ErrorKind::kFenced));
  EXPECT_EQ(Manifest().writer_epoch(), 3u);
}

// The first put is lost, and another claim of equal content lands before the second.
TEST_F(ClaimAndReplay, AClaimWhoseAnswerIsLostIsNotMistakenForAnothersEqualOne) {
  const ShardManifestStore manifests(memory_, "t", shard_);
  object_store::FaultStore silent(memory_,
                                  [&](env::Duration) { ASSERT_TRUE(manifests.Claim(1).ok()); });
  silent.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*/manifest/*.binpb",
                  .nth = 2,
                  .action = FaultAction::kDelay,
                  .delay = std::chrono::milliseconds(1)});
  silent.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*/manifest/*.binpb",
                  .nth = 1,
                  .action = FaultAction::kNotLandedAnswerLost});
  const auto loser = ShardManifestStore(silent, "t", shard_).Claim(2);
  EXPECT_FALSE(loser.ok() && loser->writer_epoch() == 1u);
}

// M7
TEST_F(ClaimAndReplay, ADoomedOpenFencesNobody) {
  const auto incumbent = Open();
  ShardOptions bad = Options();
  bad.memtable_rows = 0;
  EXPECT_TRUE(Is(ShardWriter::Open(bad).status(), ErrorKind::kInvalid));
  ASSERT_TRUE(AppendAndWait(*incumbent, {{"a", 1}}).ok());
  std::string entry = Read(Entry(1));
  entry[entry.size() / 2] ^= 1;
  Write(Entry(1), entry);
  EXPECT_TRUE(Is(OpenFails(), ErrorKind::kCorrupt));
  EXPECT_TRUE(AppendAndWait(*incumbent, {{"b", 1}}).ok());
  EXPECT_EQ(Manifest().writer_epoch(), 1u);
}

// M8
TEST_F(ClaimAndReplay, TheSentinelIsThereBeforeTheReplayReadsAnything) {
  Crashed(1);
  std::vector<LogPosition> at_sentinel;
  SyncPoints::Instance().Arm("claim.after_sentinel", [&] { at_sentinel = LogPositions(); });
  object_store::FaultStore::RuleId reads = store_.AddRule(
      {.operation = StoreOperation::kOpen, .name_glob = Entry(1), .action = FaultAction::kDelay});
  const auto writer = Open();
  EXPECT_EQ(at_sentinel.size(), 2u);
  EXPECT_GE(store_.matches(reads), 1u);
  ShardLog log(memory_, "t", shard_);
  EXPECT_TRUE((*log.Read(LogPosition(2)).ValueOrDie()).sentinel);
  EXPECT_FALSE((*log.Read(LogPosition(1)).ValueOrDie()).sentinel);
}

// M10
TEST_F(ClaimAndReplay, WhatAPredecessorAppendsBelowTheSentinelIsRecovered) {
  Crashed(1);
  ShardLog::Outcome outcome = ShardLog::Outcome::kAbsent;
  SyncPoints::Instance().Arm("claim.after_manifest",
                             [&] { outcome = AppendAs(Epoch(1), LogPosition(2), {{"late", 5}}); });
  const auto writer = Open();
  EXPECT_EQ(outcome, ShardLog::Outcome::kLanded);
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"k1", 1}, {"late", 5}}));
  // M9, for a writer that does not read the epoch again: the slot it would take next is taken.
  EXPECT_EQ(AppendAs(Epoch(1), LogPosition(3), {{"lost", 5}}), ShardLog::Outcome::kTaken);
}

// The same while the sentinel is on its way: it goes one further, and the replay reaches up to it.
TEST_F(ClaimAndReplay, WhatTakesTheSlotOfTheSentinelIsRecovered) {
  Crashed(1);
  object_store::FaultStore late(memory_, [&](env::Duration) {
    ASSERT_EQ(AppendAs(Epoch(1), LogPosition(2), {{"late", 5}}), ShardLog::Outcome::kLanded);
  });
  late.AddRule({.operation = StoreOperation::kFinish,
                .name_glob = "*.arrow",
                .nth = 1,
                .action = FaultAction::kDelay,
                .delay = std::chrono::milliseconds(1)});
  ShardOptions options = Options();
  options.store = &late;
  const auto writer = ShardWriter::Open(options).ValueOrDie();
  EXPECT_EQ(LogPositions().size(), 3u);
  EXPECT_EQ(Rows(*writer), (std::map<std::string, int64_t>{{"k1", 1}, {"late", 5}}));
}

// An entry in our slot that is whole and not ours is no acknowledgement (S1, R19).
TEST_F(ClaimAndReplay, AnEntryOfAnotherWriterInOurSlotIsNotTakenForOurs) {
  const auto writer = Open();
  ASSERT_EQ(AppendAs(Epoch(1), LogPosition(1), {{"theirs", 1}}), ShardLog::Outcome::kLanded);
  EXPECT_FALSE(AppendAndWait(*writer, {{"mine", 1}}).ok());
  EXPECT_FALSE(Rows(*writer).contains("mine"));
  EXPECT_EQ(Rows(*Open()), (std::map<std::string, int64_t>{{"theirs", 1}}));
}

// A predecessor of ours that lands there is not acknowledged, and its row is replayed once.
TEST_F(ClaimAndReplay, OurPredecessorIsFencedThoughItsEntryLanded) {
  const auto first = Open();
  ASSERT_TRUE(AppendAndWait(*first, {{"a", 1}}).ok());
  Status answer;
  SyncPoints::Instance().Arm("claim.after_manifest",
                             [&] { answer = AppendAndWait(*first, {{"late", 5}}); });
  const auto second = Open();
  EXPECT_TRUE(Is(answer, ErrorKind::kFenced)) << answer;
  EXPECT_EQ(Rows(*second), (std::map<std::string, int64_t>{{"a", 1}, {"late", 5}}));
}

// What the predecessor flushes between the opener's look and its claim is in a generation: the
// claim's own manifest decides from where on is replayed.
TEST_F(ClaimAndReplay, WhatIsFlushedBeforeTheClaimLandsIsNotReplayed) {
  const auto first = Open();
  ASSERT_TRUE(AppendAndWait(*first, {{"a", 1}}).ok());
  object_store::FaultStore late(memory_,
                                [&](env::Duration) { ASSERT_TRUE(SealAndWait(*first).ok()); });
  late.AddRule({.operation = StoreOperation::kFinish,
                .name_glob = "*/manifest/*.binpb",
                .nth = 1,
                .action = FaultAction::kDelay,
                .delay = std::chrono::milliseconds(1)});
  ShardOptions options = Options();
  options.store = &late;
  const auto second = ShardWriter::Open(options).ValueOrDie();
  EXPECT_EQ(second->recovery().replayed_rows, 0u);
  EXPECT_EQ(second->View().generations.size(), 1u);
  EXPECT_EQ(Rows(*second), (std::map<std::string, int64_t>{{"a", 1}}));
}

// R14: whoever claims while another replays may have flushed and cleaned up all that is replayed.
TEST_F(ClaimAndReplay, AnOpenerThatIsPassedDuringItsReplayIsFenced) {
  Crashed(2);
  std::shared_ptr<ShardWriter> third;
  bool passed = false;
  SyncPoints::Instance().Arm("claim.after_sentinel", [&] {
    if (std::exchange(passed, true)) return;
    third = Open();
    ASSERT_TRUE(SealAndWait(*third).ok());
  });
  const auto second = ShardWriter::Open(Options());
  ASSERT_NE(third, nullptr);
  EXPECT_TRUE(Is(second.status(), ErrorKind::kFenced)) << second.status();
  EXPECT_TRUE(AppendAndWait(*third, {{"b", 1}}).ok());
}

// M11
TEST_F(ClaimAndReplay, AnEntryOfAHigherEpochAbortsTheOpenBeforeItsClaim) {
  Crashed(1);
  ASSERT_EQ(AppendAs(Epoch(99), LogPosition(2), {{"future", 1}}), ShardLog::Outcome::kLanded);
  EXPECT_TRUE(Is(OpenFails(), ErrorKind::kFenced));
  EXPECT_EQ(Manifest().writer_epoch(), 1u);
}

// M13
TEST_F(ClaimAndReplay, TheFirstAppendOfAGenerationNeedsItsOwnEntry) {
  const auto first = Open();
  ASSERT_TRUE(AppendAndWait(*first, {{"a", 1}}).ok());
  ASSERT_TRUE(SealAndWait(*first).ok());
  const auto second = Open();
  EXPECT_TRUE(Is(AppendAndWait(*first, {{"b", 1}}), ErrorKind::kFenced));
  EXPECT_FALSE(Rows(*second).contains("b"));
}

// M33
TEST_F(ClaimAndReplay, ReplayGoesByTheCursorNotByTheListOfGenerations) {
  {
    const auto writer = Open();
    ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
    ASSERT_TRUE(SealAndWait(*writer).ok());
    const ShardManifestStore manifests(memory_, "t", shard_);
    ASSERT_TRUE(manifests
                    .Commit(writer->epoch(), {},
                            [](ShardManifest& manifest) {
                              manifest.clear_sstables();  // merged and drained
                              return Status::OK();
                            })
                    .ok());
  }
  const auto writer = Open();
  EXPECT_EQ(writer->recovery().replayed_rows, 0u);
  EXPECT_TRUE(Rows(*writer).empty());
}

// M34
TEST_F(ClaimAndReplay, GenerationsStayWholeUnderOtherLimits) {
  for (const int64_t limit : {int64_t{1}, int64_t{1000}}) {
    memory_.DeletePrefix("t/").ok();
    {
      ShardOptions options = Options();
      options.memtable_rows = 4;
      options.flush_fail_deadline = std::chrono::hours(1);
      const auto writer = ShardWriter::Open(options).ValueOrDie();
      store_.AddRule({.operation = StoreOperation::kCreate, .name_glob = "*_gen_*"});
      for (int i = 0; i < 10; ++i)
        ASSERT_TRUE(AppendAndWait(*writer, {{fmt::format("k{}", i), i}}).ok());
    }
    store_.ClearRules();
    ShardOptions options = Options();
    options.memtable_rows = limit;
    const auto writer = ShardWriter::Open(options).ValueOrDie();
    ASSERT_TRUE(SealAndWait(*writer).ok());
    std::vector<uint64_t> rows;
    const ShardManifest manifest = Manifest();
    for (const auto& generation : manifest.sstables()) rows.push_back(generation.physical_rows());
    EXPECT_EQ(rows, (std::vector<uint64_t>{4, 4, 2})) << "limit " << limit;
    ASSERT_TRUE(writer->Close().Wait(kWait).ok());
  }
}

// M35: each damage by its name; what lost nothing is recovered.
TEST_F(ClaimAndReplay, ATornLastEntryIsPassedOverAndStaysPassedOver) {
  Crashed(3);
  const std::string whole = Read(Entry(3));
  for (const size_t length : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    Write(Entry(3), whole.substr(0, length));
    {
      const auto writer = Open();
      EXPECT_EQ(writer->recovery().torn_entry, LogPosition(3)) << length << " bytes";
      EXPECT_EQ(Rows(*writer).size(), 2u);
    }
    // The sentinel of that open stands above it now; later opens pass over it, too.
    const auto writer = Open();
    EXPECT_EQ(Rows(*writer).size(), 2u);
    EXPECT_EQ(Read(Entry(3)).size(), length) << "nothing is deleted";
    for (const LogPosition position : LogPositions()) {
      if (position > LogPosition(3)) {
        ASSERT_TRUE(memory_.Delete(Entry(position.value())).ok());
      }
    }
  }
  Write(Entry(3), whole);
}

TEST_F(ClaimAndReplay, ATornEntryInTheMiddleIsRefused) {
  Crashed(3);
  Write(Entry(2), Read(Entry(2)).substr(0, 300));
  const Status refused = OpenFails();
  EXPECT_TRUE(Is(refused, ErrorKind::kCorrupt));
  EXPECT_NE(refused.message().find("torn"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find(Entry(2)), std::string::npos) << refused;
  EXPECT_EQ(Manifest().writer_epoch(), 1u);
  EXPECT_EQ(LogPositions().size(), 3u);
}

TEST_F(ClaimAndReplay, AFlippedBitInTheLastEntryIsNotTakenForATornOne) {
  Crashed(2);
  const std::string whole = Read(Entry(2));
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    Write(Entry(2), flipped);
    const auto opened = ShardWriter::Open(Options());
    EXPECT_TRUE(Is(opened.status(), ErrorKind::kCorrupt))
        << "byte " << at << ": " << opened.status();
  }
  EXPECT_EQ(Manifest().writer_epoch(), 1u);
}

TEST_F(ClaimAndReplay, AGapIsRefusedAndSoIsALogThatLostItsEnd) {
  {
    const auto writer = Open();
    ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
    ASSERT_TRUE(AppendAndWait(*writer, {{"b", 1}}).ok());
    const ShardManifestStore manifests(memory_, "t", shard_);
    ASSERT_TRUE(manifests
                    .Commit(writer->epoch(), {},
                            [](ShardManifest& manifest) {
                              manifest.set_wal_entry_position_last_seen(2);
                              return Status::OK();
                            })
                    .ok());
  }
  const std::string last = Read(Entry(2));
  ASSERT_TRUE(memory_.Delete(Entry(2)).ok());
  const Status refused = OpenFails();
  EXPECT_TRUE(Is(refused, ErrorKind::kCorrupt)) << refused;
  EXPECT_NE(refused.message().find(Entry(2)), std::string::npos) << refused;
  Write(Entry(2), last);
  EXPECT_EQ(Rows(*Open()).size(), 2u) << "put back, it opens";
}

TEST_F(ClaimAndReplay, ALowerGenerationIsRefused) {
  ShardLog log(memory_, "t", shard_);
  {
    (void)Open();
  }
  ASSERT_EQ(
      log.Append(LogPosition(1), {Epoch(1), Generation(4), 1}, {StorageBatch({{"a", 1}})}).outcome,
      ShardLog::Outcome::kLanded);
  ASSERT_EQ(
      log.Append(LogPosition(2), {Epoch(1), Generation(3), 2}, {StorageBatch({{"b", 1}})}).outcome,
      ShardLog::Outcome::kLanded);
  const Status refused = OpenFails();
  EXPECT_TRUE(Is(refused, ErrorKind::kCorrupt));
  EXPECT_NE(refused.message().find("generation 3 below generation 4"), std::string::npos)
      << refused;
  EXPECT_EQ(Manifest().writer_epoch(), 1u) << "refused before the claim";
  EXPECT_EQ(LogPositions().size(), 2u) << "no sentinel";
}

TEST_F(ClaimAndReplay, AZeroByteManifestIsPassedOverWhenTheLogHasItAll) {
  Crashed(2);
  Write(ShardManifestName("t", shard_, ShardManifestVersion(2)), "");
  const auto writer = Open();
  EXPECT_EQ(writer->epoch(), Epoch(3)) << "the lost version may have been a claim";
  EXPECT_EQ(Manifest().version(), 3u);
  EXPECT_EQ(Rows(*writer).size(), 2u);
  ASSERT_TRUE(SealAndWait(*writer).ok());
}

TEST_F(ClaimAndReplay, AZeroByteManifestIsRefusedWhenTheLogIsShort) {
  {
    const auto writer = Open();
    ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
    ASSERT_TRUE(SealAndWait(*writer).ok());
    ASSERT_TRUE(AppendAndWait(*writer, {{"b", 1}}).ok());
  }
  // The flush's manifest is lost, and the log was cleaned up by it: "a" is in no reachable place.
  Write(ShardManifestName("t", shard_, ShardManifestVersion(2)), "");
  ASSERT_TRUE(memory_.Delete(Entry(1)).ok());
  EXPECT_TRUE(Is(OpenFails(), ErrorKind::kCorrupt));
}

TEST_F(ClaimAndReplay, RowsWithoutAnyManifestAreRefused) {
  Crashed(1);
  ASSERT_TRUE(memory_.DeletePrefix(ShardManifestPrefix("t", shard_)).ok());
  EXPECT_TRUE(Is(OpenFails(), ErrorKind::kCorrupt));
  EXPECT_EQ(LogPositions().size(), 1u);
}

// A cleanly closed writer of the same process goes on; anything else makes a new epoch or is
// fenced.
TEST_F(ClaimAndReplay, AContinuedClaimTakesNoEpochAndNoSentinelButNeverTheShardBack) {
  Epoch epoch;
  {
    const auto writer = Open();
    epoch = writer->epoch();
    ASSERT_TRUE(AppendAndWait(*writer, {{"a", 1}}).ok());
    ASSERT_TRUE(writer->Close().Wait(kWait).ok());
  }
  ShardOptions options = Options();
  options.continue_epoch = epoch;
  {
    const auto again = ShardWriter::Open(options).ValueOrDie();
    EXPECT_EQ(again->epoch(), epoch);
    ASSERT_TRUE(AppendAndWait(*again, {{"b", 2}}).ok());
    EXPECT_EQ(LogPositions().size(), 2u);
    ASSERT_TRUE(again->Close().Wait(kWait).ok());
  }
  const auto rival = Open();
  EXPECT_TRUE(Is(ShardWriter::Open(options).status(), ErrorKind::kFenced));
  EXPECT_TRUE(AppendAndWait(*rival, {{"c", 3}}).ok()) << "the rival is untouched";
}

// The hint takes no part in a claim or a commit.
TEST_F(ClaimAndReplay, AHintThatCannotBeWrittenFailsNothing) {
  store_.AddRule(
      {.operation = StoreOperation::kCreate, .name_glob = ShardManifestHintName("t", shard_)});
  const auto writer = ShardWriter::Open(Options());
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(AppendAndWait(**writer, {{"a", 1}}).ok());
  EXPECT_TRUE(SealAndWait(**writer).ok());
  EXPECT_EQ(Manifest().version(), 2u);
}

}  // namespace
}  // namespace sarissa::memwal
