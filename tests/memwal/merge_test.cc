// What a merge leaves in the base table and in the shard, one rule at a time.
#include "memwal/merge.h"

#include <atomic>
#include <cstring>

#include "memwal/clean_up.h"
#include "proto/lance_mem_wal.pb.h"
#include "tests/memwal/merge_world.h"

namespace sarissa::memwal {
namespace {

using MergeTest = MergeWorld;

// --- newest wins (M36 to M40)

TEST_F(MergeTest, ASecondCopyOfAKeyReplacesTheFirstAndMovesToTheEnd) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1), Set("c", 1)});
  EXPECT_EQ(Merge().rows_appended, 3u);
  Flush(*writer, {Set("a", 2)});
  const MergeReport report = Merge();
  EXPECT_EQ(report.rows_deleted, 1u);
  EXPECT_EQ(report.rows_appended, 1u);
  EXPECT_EQ(BaseRows(), (KeyedRows{{"b", 1}, {"c", 1}, {"a", 2}}));
  EXPECT_EQ(Read(*writer), BaseRows());
}

TEST_F(MergeTest, ATombstoneDeletesAKeyThatOnlyTheBaseHas) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1)});
  Merge();
  Flush(*writer, {Remove("a")});
  const MergeReport report = Merge();
  EXPECT_EQ(report.rows_deleted, 1u);
  EXPECT_EQ(report.rows_appended, 0u);
  EXPECT_EQ(report.watermark, Generation(2));
  EXPECT_EQ(BaseRows(), (KeyedRows{{"b", 1}}));
  EXPECT_EQ(Base()->schema().arrow_schema()->num_fields(), 2) << "no _tombstone in the base";
}

TEST_F(MergeTest, ATombstoneOfAKeyThatIsNowhereStillMovesTheWatermark) {
  const auto writer = Open();
  Flush(*writer, {Remove("a")});
  EXPECT_EQ(Merge().watermark, Generation(1));
  EXPECT_TRUE(BaseRows().empty());
  EXPECT_EQ(Manifest().sstables_size(), 0);
}

TEST_F(MergeTest, TheNewestTombstoneIsChosenBeforeItIsFiltered) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  Merge();
  Flush(*writer, {Set("a", 2), Set("b", 2)});
  Flush(*writer, {Remove("a"), Remove("c")});
  Flush(*writer, {Set("c", 3)});
  Merge();
  EXPECT_EQ(BaseRows(), (KeyedRows{{"b", 2}, {"c", 3}}))
      << "not the older copies of a that the tombstone hid; c was put back";
}

TEST_F(MergeTest, AKeyDeletedAndPutBackWithinOneGenerationLives) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1)});
  Merge();
  Flush(*writer, {Remove("a"), Set("a", 2), Set("b", 2), Remove("b")});
  Merge();
  EXPECT_EQ(BaseRows(), (KeyedRows{{"a", 2}}));
}

// Two keys with one std::hash: libstdc++ hashes 8 bytes at a time (MurmurHash64A), so a difference
// in the first block can be undone by one in the second.
std::pair<std::string, std::string> KeysOfOneHash() {
  constexpr uint64_t kMul = 0xc6a4a7935bd1e995ULL;
  uint64_t inverse = 1;  // of kMul mod 2^64, by Newton
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMul * inverse;
  const auto mix = [](uint64_t k) {
    k *= kMul;
    k ^= k >> 47;
    return k * kMul;
  };
  const auto unmix = [inverse](uint64_t k) {
    k *= inverse;
    k ^= k >> 47;
    return k * inverse;
  };
  const auto block = [](const std::string& text) {
    uint64_t value = 0;
    std::memcpy(&value, text.data(), sizeof(value));
    return value;
  };
  const std::string first = "aaaaaaaabbbbbbbb";
  const uint64_t start = 0xc70f6907ULL ^ (first.size() * kMul);
  const uint64_t after_first = (start ^ mix(block(first))) * kMul;
  for (uint64_t n = 0;; ++n) {
    std::string second = fmt::format("{:08d}", n);
    const uint64_t after_second = (start ^ mix(block(second))) * kMul;
    const uint64_t undo = unmix(mix(block(first.substr(8))) ^ after_first ^ after_second);
    if ((undo & 0x8080808080808080ULL) != 0) continue;  // ASCII only
    second.append(reinterpret_cast<const char*>(&undo), sizeof(undo));
    return {first, second};
  }
}

TEST_F(MergeTest, TwoKeysWithOneHashAreTwoRows) {
  const auto [a, b] = KeysOfOneHash();
  ASSERT_NE(a, b);
  ASSERT_EQ(std::hash<std::string_view>()(a), std::hash<std::string_view>()(b));
  const auto writer = Open();
  Flush(*writer, {Set(a, 1), Set(b, 2)});
  EXPECT_EQ(Read(*writer), (KeyedRows{{a, 1}, {b, 2}})) << "in one generation";
  Flush(*writer, {Set(b, 3)});
  Merge();
  EXPECT_EQ(BaseRows(), (KeyedRows{{a, 1}, {b, 3}})) << "in one merge";
  Flush(*writer, {Remove(a)});
  Merge();
  EXPECT_EQ(BaseRows(), (KeyedRows{{b, 3}})) << "against the base";
}

TEST_F(MergeTest, AWriteThatIsNotVisibleYetHidesNothing) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  Gate landed("log.after_put");
  auto pending = writer->Append({ChangeBatch({Set("a", 2)})}, {});
  landed.AwaitArrival();
  EXPECT_EQ(Read(*writer), (KeyedRows{{"a", 1}}));
  EXPECT_EQ(Merge().generations_merged, 1u);
  EXPECT_EQ(Read(*writer), (KeyedRows{{"a", 1}}));
  landed.Open();
  ASSERT_TRUE(pending.Wait(kWait).ok());
  EXPECT_EQ(Read(*writer), (KeyedRows{{"a", 2}}));
  ASSERT_TRUE(SealAndWait(*writer).ok());
  Merge();
  EXPECT_EQ(BaseRows(), (KeyedRows{{"a", 2}}));
}

TEST_F(MergeTest, FrozenAndActiveRowsStayAboveTheMergedOnes) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1), Set("c", 1)});
  Gate flush("flush.after_data");
  ASSERT_TRUE(Write(*writer, {Set("b", 2), Remove("a")}).ok());
  (void)writer->Seal();
  flush.AwaitArrival();
  ASSERT_TRUE(Write(*writer, {Set("a", 3)}).ok());
  const KeyedRows expected = {{"c", 1}, {"b", 2}, {"a", 3}};
  EXPECT_EQ(Read(*writer), expected);
  EXPECT_EQ(Merge().generations_merged, 1u);
  EXPECT_EQ(Read(*writer), expected);
  flush.Open();
  ASSERT_TRUE(SealAndWait(*writer).ok());
  EXPECT_EQ(Merge().generations_merged, 2u);
  EXPECT_EQ(BaseRows(), expected);
}

// --- shards and watermarks (M41 to M43, M45)

TEST_F(MergeTest, AShardIsMergedByItselfAndLosesNothingOfAnother) {
  const ShardId other = ShardId::FromName("other");
  ShardOptions options = Options();
  options.shard = other;
  const auto second = ShardWriter::Open(options).ValueOrDie();
  const auto first = Open();
  Flush(*first, {Set("a", 1), Set("b", 1)});
  ASSERT_TRUE(Write(*second, {Set("c", 2), Set("d", 2)}).ok());
  ASSERT_TRUE(SealAndWait(*second).ok());

  Merge();
  EXPECT_EQ(BaseRows(), (KeyedRows{{"a", 1}, {"b", 1}}));
  EXPECT_EQ(ShardManifestStore(memory_, "t", other).ReadNewest().ValueOrDie()->sstables_size(), 1)
      << "generation 1 of the other shard is not this one's";
  MergeOptions merging = Merging(store_);
  merging.shard = other;
  EXPECT_EQ(Merge(merging).watermark, Generation(1));
  EXPECT_EQ(BaseRows(), (KeyedRows{{"a", 1}, {"b", 1}, {"c", 2}, {"d", 2}}));
  EXPECT_EQ(MergedGenerations(*Base()).ValueOrDie(),
            (std::map<ShardId, Generation>{{shard_, Generation(1)}, {other, Generation(1)}}));
}

TEST_F(MergeTest, AGenerationUpToTheWatermarkIsNotReadThoughItIsStillNamed) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1)});
  Flush(*writer, {Set("a", 2)});
  // The first put only proves that the manifest is durable.
  const auto rule = store_.AddRule(
      {.operation = StoreOperation::kFinish, .name_glob = "*/manifest/*.binpb", .nth = 2});
  MergeReport report;
  const Status merged = MergeGenerations(Merging(store_), report);
  EXPECT_TRUE(Is(merged, ErrorKind::kUnavailable)) << merged;
  EXPECT_EQ(report.watermark, Generation(2)) << "merged, but not drained";
  store_.RemoveRule(rule);
  EXPECT_EQ(Manifest().sstables_size(), 2);
  EXPECT_EQ(ReadStored(memory_), (KeyedRows{{"b", 1}, {"a", 2}}));

  const TableVersion version = Base()->version();
  report = Merge();
  EXPECT_EQ(report.generations_drained, 2u);
  EXPECT_EQ(report.generations_merged, 0u);
  EXPECT_EQ(Manifest().sstables_size(), 0);
  EXPECT_EQ(Base()->version(), version) << "nothing was committed a second time";
  EXPECT_EQ(ReadStored(memory_), (KeyedRows{{"b", 1}, {"a", 2}}));
}

// A power loss may take such a manifest back; the next generation of its number would then lie
// under the watermark, and its rows would be hidden.
TEST_F(MergeTest, AManifestThatIsPerhapsNotDurableIsNotMerged) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  const TableVersion version = Base()->version();
  const auto rule = store_.AddRule({.operation = StoreOperation::kFinish,
                                    .name_glob = "*/manifest/*.binpb",
                                    .status = MakeError(ErrorKind::kIo, "the sync failed")});
  MergeReport report;
  const Status merged = MergeGenerations(Merging(store_), report);
  EXPECT_TRUE(Is(merged, ErrorKind::kIo)) << merged;
  EXPECT_EQ(Base()->version(), version);
  store_.RemoveRule(rule);
  EXPECT_EQ(Merge().watermark, Generation(1));
}

TEST_F(MergeTest, OfTwoMergesAtOnceOneWinsAndTheOtherChangesNothing) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1)});
  Merge();
  Flush(*writer, {Set("a", 2), Set("c", 2)});
  Flush(*writer, {Set("d", 3)});
  // The slower one has taken one generation, or both, when the faster one commits.
  for (const uint64_t taken : {1, 2}) {
    const auto before = CopyOf(memory_);
    MergeReport faster;
    std::atomic<bool> first{true};
    SyncPoints::Instance().Arm("merge.before_commit", [&] {
      if (!first.exchange(false)) return;
      EXPECT_TRUE(MergeGenerations(Merging(*before), faster).ok());
    });
    MergeOptions options = Merging(*before);
    options.max_generations = taken;
    MergeReport slower;
    const Status lost = MergeGenerations(options, slower);
    SyncPoints::Instance().Clear();
    EXPECT_TRUE(Is(lost, ErrorKind::kConflict)) << lost;
    EXPECT_EQ(faster.generations_merged, 2u);
    EXPECT_EQ(slower.generations_merged, 0u);
    EXPECT_EQ(Base(*before)->version(), faster.version);
    EXPECT_EQ(ReadStored(*before), (KeyedRows{{"b", 1}, {"a", 2}, {"c", 2}, {"d", 3}}));
    EXPECT_EQ(before->List("t/data/", {}).ValueOrDie().objects.size(), 2u)
        << "the loser's data file is gone";
    EXPECT_TRUE(MergeGenerations(Merging(*before), slower).ok());
    EXPECT_EQ(slower.generations_merged, 0u);
  }
}

TEST_F(MergeTest, TheWatermarkChangesAndNothingElseInTheEntry) {
  // What other software may have put there.
  const auto base = Base();
  pb::table::IndexMetadata entry = base->indices().indices(0);
  pb::mem_wal::MemWalIndexDetails details;
  ASSERT_TRUE(details.ParseFromString(entry.index_details().value()));
  const ShardId other = ShardId::FromName("other");
  details.add_maintained_indexes("v_idx");
  (*details.mutable_writer_config_defaults())["durable_write"] = "true";
  auto* caught_up = details.add_index_catchup();
  caught_up->set_index_name("v_idx");
  auto* progress = caught_up->add_progress();
  progress->mutable_shard_id()->set_uuid(other.bytes.data(), other.bytes.size());
  progress->set_generation(7);
  auto* theirs = details.add_compacted_sstables();
  theirs->mutable_shard_id()->set_uuid(other.bytes.data(), other.bytes.size());
  theirs->set_generation(9);
  details.GetReflection()->MutableUnknownFields(&details)->AddVarint(777, 5);
  entry.mutable_index_details()->set_value(details.SerializeAsString());
  pb::table::IndexMetadata index;
  index.set_name("v_idx");
  index.mutable_uuid()->set_uuid(std::string(16, 'u'));
  ASSERT_TRUE(base->CommitIndices({entry, index}, {kMemWalIndexName}).ok());

  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  Flush(*writer, {Set("b", 1)});
  Merge();
  const auto merged = Base();
  ASSERT_EQ(merged->indices().indices_size(), 2);
  pb::table::IndexMetadata after = merged->indices().indices(0);
  EXPECT_NE(after.uuid().uuid(), entry.uuid().uuid()) << "the uuid keys the decoded details";
  EXPECT_EQ(after.dataset_version(), merged->version().value());
  pb::mem_wal::MemWalIndexDetails details_after;
  ASSERT_TRUE(details_after.ParseFromString(after.index_details().value()));
  auto* mine = details.add_compacted_sstables();
  mine->mutable_shard_id()->set_uuid(shard_.bytes.data(), shard_.bytes.size());
  mine->set_generation(2);
  EXPECT_EQ(details_after.SerializeAsString(), details.SerializeAsString())
      << "no index was said to have caught up";
  *after.mutable_uuid() = entry.uuid();
  after.set_dataset_version(entry.dataset_version());
  after.set_created_at(entry.created_at());
  *after.mutable_index_details() = entry.index_details();
  EXPECT_EQ(after.SerializeAsString(), entry.SerializeAsString());
  EXPECT_EQ(merged->indices().indices(1).SerializeAsString(), index.SerializeAsString());
}

// --- the shard and its writer

TEST_F(MergeTest, TheLiveWriterIsNotFencedAndItsNextFlushKeepsTheDrain) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  Flush(*writer, {Set("b", 1)});
  const ShardManifest before = Manifest();
  EXPECT_EQ(Merge().generations_drained, 2u);
  const ShardManifest after = Manifest();
  EXPECT_EQ(after.writer_epoch(), before.writer_epoch());
  EXPECT_EQ(after.replay_after_wal_entry_position(), before.replay_after_wal_entry_position());
  EXPECT_EQ(after.current_generation(), before.current_generation());
  EXPECT_EQ(after.version(), before.version() + 1);

  Flush(*writer, {Set("a", 2)});
  EXPECT_EQ(writer->state(), WriterState::kActive);
  ASSERT_EQ(Manifest().sstables_size(), 1);
  EXPECT_EQ(Manifest().sstables(0).generation(), 3u);
  ASSERT_EQ(writer->View().generations.size(), 1u) << "what the flush committed is what is shown";
  EXPECT_EQ(Read(*writer), (KeyedRows{{"b", 1}, {"a", 2}}));
}

TEST_F(MergeTest, AMergedShardIsReopenedWithoutAReplayOfWhatIsMerged) {
  {
    const auto writer = Open();
    Flush(*writer, {Set("a", 1)});
    ASSERT_TRUE(Write(*writer, {Set("b", 2)}).ok());
  }
  Merge();
  const auto writer = Open();
  EXPECT_EQ(writer->recovery().replayed_rows, 1u);
  EXPECT_EQ(Read(*writer), (KeyedRows{{"a", 1}, {"b", 2}}));
}

TEST_F(MergeTest, AClaimDuringTheDrainIsNotInItsWay) {
  auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  SyncPoints::Instance().Arm("merge.after_commit", [&] { writer = Open(); });
  EXPECT_EQ(Merge().generations_drained, 1u);
  SyncPoints::Instance().Clear();
  EXPECT_EQ(Manifest().sstables_size(), 0);
  Flush(*writer, {Set("b", 1)});
  EXPECT_EQ(Read(*writer), (KeyedRows{{"a", 1}, {"b", 1}}));
}

TEST_F(MergeTest, LimitsCutTheWorkIntoSlicesFromTheOldestOn) {
  const auto writer = Open();
  for (int64_t i = 0; i < 5; ++i) Flush(*writer, {Set("a", i), Set(fmt::format("k{}", i), i)});
  const auto copy = CopyOf(memory_);
  const KeyedRows expected = Read(*writer);

  MergeOptions options = Merging(store_);
  options.max_generations = 2;
  options.fragment_rows = 1;
  MergeReport report = Merge(options);
  EXPECT_EQ(report.watermark, Generation(2));
  EXPECT_EQ(report.generations_left, 3u);
  EXPECT_EQ(Base()->manifest().fragments_size(), 2) << "k0, then a and k1 in one batch";
  EXPECT_EQ(Read(*writer), expected);
  EXPECT_EQ(Merge(options).watermark, Generation(4));
  report = Merge(options);
  EXPECT_EQ(report.watermark, Generation(5));
  EXPECT_EQ(report.generations_left, 0u);
  EXPECT_EQ(BaseRows(), expected);

  options = Merging(*copy);
  options.max_bytes = 1;
  EXPECT_EQ(Merge(options).generations_merged, 1u) << "one at least";
  options.max_bytes = UINT64_MAX;
  EXPECT_EQ(Merge(options).generations_merged, 4u);
  EXPECT_EQ(ReadStored(*copy), expected);
}

TEST_F(MergeTest, CleanUpTakesTheFoldersOfDrainedGenerationsOnly) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1)});
  Flush(*writer, {Remove("a")});
  Flush(*writer, {Set("c", 3)});
  MergeOptions options = Merging(store_);
  options.max_generations = 2;
  CleanUpOptions cleaning;
  cleaning.store = &store_;
  cleaning.clock = posix_.env().clock;
  cleaning.table = "t";
  cleaning.shard = shard_;
  cleaning.retention = {};
  cleaning.merged = Merge(options).watermark;
  CleanUpState state;
  CleanUpReport report;
  ASSERT_TRUE(CleanUpShard(cleaning, state, report).ok());
  EXPECT_EQ(report.drained_removed, 2u);
  EXPECT_EQ(report.orphans_removed, 0u);
  EXPECT_EQ(ReadStored(memory_), (KeyedRows{{"b", 1}, {"c", 3}}));
  Flush(*writer, {Set("b", 4)});
  EXPECT_EQ(Read(*writer), (KeyedRows{{"c", 3}, {"b", 4}}));
}

TEST_F(MergeTest, ManyDrainsAndACleanUpBetweenTwoFlushesDoNotStopTheWriter) {
  const auto writer = Open();
  for (int64_t i = 0; i < 20; ++i) Flush(*writer, {Set("a", i)});
  MergeOptions options = Merging(store_);
  options.max_generations = 1;
  for (int i = 0; i < 20; ++i) Merge(options);
  CleanUpOptions cleaning;
  cleaning.store = &store_;
  cleaning.clock = posix_.env().clock;
  cleaning.table = "t";
  cleaning.shard = shard_;
  CleanUpState state;
  CleanUpReport report;
  ASSERT_TRUE(CleanUpShard(cleaning, state, report).ok());
  EXPECT_GT(report.manifests_removed, 21u) << "the version that the writer knows is gone";
  Flush(*writer, {Set("b", 1)});
  EXPECT_EQ(Read(*writer), (KeyedRows{{"a", 19}, {"b", 1}}));
}

TEST_F(MergeTest, AWatermarkThatMayBeLostDrainsNothing) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  const auto drains = store_.AddRule(
      {.operation = StoreOperation::kFinish, .name_glob = "*/manifest/*.binpb", .nth = 2});
  MergeReport report;
  EXPECT_FALSE(MergeGenerations(Merging(store_), report).ok());
  ASSERT_EQ(report.watermark, Generation(1)) << "merged, but not drained";
  store_.RemoveRule(drains);
  // The base's manifest can be read; whether it is durable the store does not say.
  const auto syncs =
      store_.AddRule({.operation = StoreOperation::kFinish, .name_glob = "t/_versions/*.manifest"});
  EXPECT_TRUE(Is(MergeGenerations(Merging(store_), report), ErrorKind::kUnavailable));
  EXPECT_EQ(Manifest().sstables_size(), 1);
  store_.RemoveRule(syncs);
  EXPECT_EQ(Merge().generations_drained, 1u);
}

TEST_F(MergeTest, NothingToMergeCommitsNothing) {
  EXPECT_EQ(Merge().watermark, Generation()) << "no shard at all";
  const auto writer = Open();
  EXPECT_EQ(Merge().generations_merged, 0u);
  EXPECT_EQ(Base()->version(), TableVersion(2));
}

TEST_F(MergeTest, ATableWithoutAMemWalEntryIsRefused) {
  ASSERT_TRUE(lance::Table::Create({&memory_, &posix_.env()}, "plain", KeyedBase(), {}).ok());
  MergeOptions options = Merging(store_);
  options.table = "plain";
  MergeReport report;
  EXPECT_TRUE(Is(MergeGenerations(options, report), ErrorKind::kInvalid));
}

TEST_F(MergeTest, ADamagedGenerationIsNamedAndNothingChanges) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  const std::string folder = ShardPrefix("t", shard_) + Manifest().sstables(0).path();
  const auto data = memory_.List(folder + "/data/", {}).ValueOrDie().objects.at(0).name;
  auto bytes = memory_.Get(data).ValueOrDie()->ToString();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(memory_
                  .Put(data, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                       object_store::PutMode::kOverwrite)
                  .ok());
  MergeReport report;
  const Status merged = MergeGenerations(Merging(store_), report);
  EXPECT_TRUE(Is(merged, ErrorKind::kCorrupt)) << merged;
  EXPECT_NE(merged.message().find(data), std::string::npos) << merged;
  EXPECT_EQ(Base()->version(), TableVersion(2));
  EXPECT_EQ(Manifest().sstables_size(), 1);
}

// --- other writers of the base (R20)

TEST_F(MergeTest, ARowThatAnotherUpdateInsertedMeanwhileIsNotThereTwice) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  bool armed = true;
  SyncPoints::Instance().Arm("merge.before_commit", [&] {
    if (!std::exchange(armed, false)) return;
    // An upsert of the same key by somebody who merges no shard.
    const auto base = Base();
    auto appender = base->NewAppender().ValueOrDie();
    ASSERT_TRUE(appender->Write(*testing::UserBatch({{"a", 7}})).ok());
    lance::Upsert upsert;
    upsert.appended.push_back(appender->Finish().ValueOrDie());
    ASSERT_TRUE(base->CommitUpsert(std::move(upsert)).ok());
  });
  MergeReport report;
  const Status lost = MergeGenerations(Merging(store_), report);
  EXPECT_TRUE(Is(lost, ErrorKind::kConflict)) << lost;
  EXPECT_EQ(BaseRows(), (KeyedRows{{"a", 7}}));
  EXPECT_EQ(Merge().rows_deleted, 1u);
  EXPECT_EQ(BaseRows(), (KeyedRows{{"a", 1}}));
}

TEST_F(MergeTest, AnAppendOrAnIndexMeanwhileIsNotInTheWay) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1)});
  Merge();
  Flush(*writer, {Set("a", 2)});
  SyncPoints::Instance().Arm("merge.before_commit", [&] {
    const auto base = Base();
    auto appender = base->NewAppender().ValueOrDie();
    ASSERT_TRUE(appender->Write(*testing::UserBatch({{"other", 7}})).ok());
    const auto appended = base->CommitAppend({appender->Finish().ValueOrDie()}).ValueOrDie();
    pb::table::IndexMetadata index;
    index.set_name("i");
    index.mutable_uuid()->set_uuid(std::string(16, 'u'));
    ASSERT_TRUE(appended->CommitIndices({index}, {}).ok());
  });
  EXPECT_EQ(Merge().rows_deleted, 1u);
  EXPECT_EQ(BaseRows(), (KeyedRows{{"other", 7}, {"a", 2}}));
  EXPECT_EQ(Base()->indices().indices_size(), 2);
}

TEST_F(MergeTest, ADeleteOfARowThatTheMergeReplacesIsAConflict) {
  const auto writer = Open();
  Flush(*writer, {Set("a", 1), Set("b", 1)});
  Merge();
  Flush(*writer, {Set("a", 2)});
  bool armed = true;
  SyncPoints::Instance().Arm("merge.before_commit", [&] {
    if (!std::exchange(armed, false)) return;
    ASSERT_TRUE(Base()->CommitDelete(std::vector<lance::RowAddress>{0, 1}).ok());
  });
  MergeReport report;
  EXPECT_TRUE(Is(MergeGenerations(Merging(store_), report), ErrorKind::kConflict));
  EXPECT_EQ(Merge().rows_deleted, 0u);
  EXPECT_EQ(BaseRows(), (KeyedRows{{"a", 2}}));
}

}  // namespace
}  // namespace sarissa::memwal
