#include "lance/table/commit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <utility>

#include "base/sync_point.h"
#include "env/posix/posix_env.h"
#include "lance/table/deletion_vector.h"
#include "object_store/fault_store.h"
#include "object_store/local_store.h"
#include "tests/env/scratch_directory.h"
#include "tests/lance/table_world.h"

namespace sarissa::lance {
namespace {

using object_store::FaultAction;
using object_store::FaultRule;
using object_store::FaultStore;
using object_store::PutMode;
using object_store::StoreOperation;
using test::FakeFragment;

std::multiset<std::string> FilesOf(const Table& table) {
  std::multiset<std::string> out;
  for (const auto& fragment : table.manifest().fragments()) out.insert(fragment.files(0).path());
  return out;
}

Result<std::shared_ptr<Table>> Append(const std::shared_ptr<Table>& table, const std::string& file,
                                      uint64_t rows) {
  return table->CommitAppend({FakeFragment(file, rows)});
}

// Commits a foreign transaction on top of the newest version, as a writer of another kind would.
void CommitForeign(
    object_store::ObjectStore& store, pb::transaction::Transaction transaction,
    const std::function<void(LoadedManifest&)>& edit = [](LoadedManifest&) {}) {
  ASSERT_VALUE(TableTip tip, FindTip(store, "t"));
  transaction.set_uuid("foreign");
  LoadedManifest& next = tip.newest.loaded;
  edit(next);
  next.manifest.set_version(tip.taken.value() + 1);
  next.manifest.clear_transaction_file();
  next.transaction = transaction;
  ASSERT_VALUE(const std::string bytes, SerializeManifest(next));
  ASSERT_TRUE(store
                  .Put("t/_versions/" + ManifestName(tip.taken.Next(), tip.newest.naming),
                       {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                       PutMode::kIfAbsent)
                  .ok());
}

pb::table::IndexMetadata Index(const std::string& name, const std::string& uuid) {
  pb::table::IndexMetadata out;
  out.set_name(name);
  out.mutable_uuid()->set_uuid(uuid);
  return out;
}

TEST(Commit, CreateWritesVersionOneWithItsTransaction) {
  test::TableWorld world;
  CreateOptions options;
  options.config = {{"k", "v"}};
  ASSERT_VALUE(const auto table, test::CreateRowTable(world.context(), "t", options));
  EXPECT_EQ(table->version(), TableVersion(1));
  EXPECT_EQ(table->manifest().data_format().version(), "2.1");
  EXPECT_EQ(table->manifest().writer_feature_flags(), kFlagTableConfig);
  EXPECT_FALSE(table->manifest().has_max_fragment_id());
  ASSERT_VALUE(const auto manifest, ReadManifest(world.store(), "t", TableVersion(1)));
  EXPECT_TRUE(manifest.transaction->has_overwrite());
  EXPECT_TRUE(world.store().Head("t/_transactions/" + manifest.manifest.transaction_file()).ok());
  ASSERT_VALUE(const auto hint, world.store().Get("t/_versions/latest_version_hint.json"));
  EXPECT_EQ(hint->ToString(), "{\"version\":1}");
  ASSERT_KIND(ErrorKind::kAlreadyExists, test::CreateRowTable(world.context(), "t"));
  ASSERT_TRUE(Append(table, "a", 5).ok());
  ASSERT_TRUE(world.store().Delete("t/_versions/" + ManifestName(TableVersion(1))).ok());
  ASSERT_KIND(ErrorKind::kAlreadyExists, test::CreateRowTable(world.context(), "t"));
}

TEST(Commit, ALaggingAppendIsRebasedAndIdsAreNeverReused) {
  test::TableWorld world;
  ASSERT_VALUE(const auto first, test::CreateRowTable(world.context(), "t"));
  ASSERT_VALUE(const auto second, Append(first, "a", 10));
  ASSERT_VALUE(const auto third, Append(first, "b", 20));
  EXPECT_EQ(third->version(), TableVersion(3));
  EXPECT_EQ(FilesOf(*third), (std::multiset<std::string>{"a", "b"}));
  ASSERT_VALUE(const auto fourth,
               third->CommitDelete(std::vector<RowAddress>{
                   (1ULL << 32),      (1ULL << 32) + 1,  (1ULL << 32) + 2,  (1ULL << 32) + 3,
                   (1ULL << 32) + 4,  (1ULL << 32) + 5,  (1ULL << 32) + 6,  (1ULL << 32) + 7,
                   (1ULL << 32) + 8,  (1ULL << 32) + 9,  (1ULL << 32) + 10, (1ULL << 32) + 11,
                   (1ULL << 32) + 12, (1ULL << 32) + 13, (1ULL << 32) + 14, (1ULL << 32) + 15,
                   (1ULL << 32) + 16, (1ULL << 32) + 17, (1ULL << 32) + 18, (1ULL << 32) + 19}));
  EXPECT_EQ(FilesOf(*fourth), (std::multiset<std::string>{"a"}));
  ASSERT_VALUE(const auto fifth, Append(fourth, "c", 1));
  EXPECT_EQ(fifth->manifest().fragments(1).id(), 2u);
  EXPECT_EQ(fifth->manifest().max_fragment_id(), 2u);
}

TEST(Commit, UnknownManifestFieldsConfigAndIndicesSurvive) {
  test::TableWorld world;
  ASSERT_VALUE(const auto table, test::CreateRowTable(world.context(), "t"));
  pb::transaction::Transaction config;
  config.set_update_config("");
  CommitForeign(world.store(), config, [](LoadedManifest& next) {
    (*next.manifest.mutable_config())["a"] = "b";
    (*next.manifest.mutable_table_metadata())["c"] = "d";
    next.manifest.GetReflection()->MutableUnknownFields(&next.manifest)->AddVarint(999, 7);
    *next.indices.add_indices() = Index("i", "u");
  });
  ASSERT_VALUE(const auto after, Append(table, "a", 5));
  EXPECT_EQ(after->version(), TableVersion(3));
  EXPECT_EQ(after->manifest().config().at("a"), "b");
  EXPECT_EQ(after->manifest().table_metadata().at("c"), "d");
  EXPECT_EQ(after->manifest().GetReflection()->GetUnknownFields(after->manifest()).field_count(),
            1);
  EXPECT_EQ(after->indices().indices(0).name(), "i");
  EXPECT_EQ(after->manifest().writer_feature_flags(), kFlagTableConfig);
}

TEST(Commit, DeletesOfTheSameFragmentAreUnited) {
  test::TableWorld world;
  ASSERT_VALUE(const auto empty, test::CreateRowTable(world.context(), "t"));
  ASSERT_VALUE(const auto base, Append(empty, "a", 100));
  ASSERT_VALUE(const auto one, base->CommitDelete(std::vector<RowAddress>{1, 2, 3, 3}));
  EXPECT_EQ(one->CountRows(), 97u);
  ASSERT_VALUE(const auto two, base->CommitDelete(std::vector<RowAddress>{3, 4}));
  EXPECT_EQ(two->CountRows(), 96u);
  EXPECT_EQ(two->manifest().reader_feature_flags(), kFlagDeletionFiles);
  EXPECT_EQ(two->manifest().writer_feature_flags(), kFlagDeletionFiles);
  ASSERT_VALUE(const auto vector,
               ReadDeletionVector(world.store(), "t", two->manifest().fragments(0), 100));
  EXPECT_EQ(std::vector<uint32_t>(vector->offsets().begin(), vector->offsets().end()),
            (std::vector<uint32_t>{1, 2, 3, 4}));
  ASSERT_VALUE(const auto same, two->CommitDelete(std::vector<RowAddress>{1, 4}));
  EXPECT_EQ(same->version(), two->version());
  ASSERT_KIND(ErrorKind::kNotFound, two->CommitDelete(std::vector<RowAddress>{100}));
  ASSERT_KIND(ErrorKind::kNotFound, two->CommitDelete(std::vector<RowAddress>{7ULL << 32}));
}

TEST(Commit, DeleteOverAFragmentThatAnotherEmptiedIsDone) {
  test::TableWorld world;
  ASSERT_VALUE(const auto empty, test::CreateRowTable(world.context(), "t"));
  ASSERT_VALUE(const auto base, empty->CommitAppend({FakeFragment("a", 2), FakeFragment("b", 2)}));
  ASSERT_TRUE(base->CommitDelete(std::vector<RowAddress>{0, 1}).ok());
  ASSERT_VALUE(const auto after, base->CommitDelete(std::vector<RowAddress>{0, 1ULL << 32}));
  EXPECT_EQ(after->CountRows(), 1u);
}

TEST(Commit, DeleteOverARewriteOfItsFragmentIsAConflict) {
  test::TableWorld world;
  ASSERT_VALUE(const auto empty, test::CreateRowTable(world.context(), "t"));
  ASSERT_VALUE(const auto base, empty->CommitAppend({FakeFragment("a", 5), FakeFragment("b", 5)}));
  pb::transaction::Transaction rewrite;
  rewrite.set_rewrite("");
  CommitForeign(world.store(), rewrite, [](LoadedManifest& next) {
    next.manifest.mutable_fragments(0)->set_id(2);
    next.manifest.set_max_fragment_id(2);
  });
  ASSERT_KIND(ErrorKind::kConflict, base->CommitDelete(std::vector<RowAddress>{0}));
  ASSERT_VALUE(const auto other, base->CommitDelete(std::vector<RowAddress>{1ULL << 32}));
  EXPECT_EQ(other->CountRows(), 9u);
  ASSERT_TRUE(Append(base, "c", 1).ok());
}

TEST(Commit, DeleteOfARowThatAnotherUpdatedIsAConflict) {
  test::TableWorld world;
  ASSERT_VALUE(const auto empty, test::CreateRowTable(world.context(), "t"));
  ASSERT_VALUE(const auto base, Append(empty, "a", 5));
  pb::transaction::Transaction update;
  update.mutable_update();
  auto deletions = WriteDeletionVector(world.store(), world.random(), "t", 0, 2,
                                       DeletionVector({3}), pb::table::DeletionFile::ARROW);
  ASSERT_TRUE(deletions.ok());
  CommitForeign(world.store(), update, [&](LoadedManifest& next) {
    *next.manifest.mutable_fragments(0)->mutable_deletion_file() = *deletions;
  });
  ASSERT_KIND(ErrorKind::kConflict, base->CommitDelete(std::vector<RowAddress>{2, 3}));
  ASSERT_VALUE(const auto after, base->CommitDelete(std::vector<RowAddress>{2}));
  EXPECT_EQ(after->CountRows(), 3u);
}

TEST(Commit, AppendOverAnOverwriteOrAnUnknownOperationIsAConflict) {
  for (const bool known : {true, false}) {
    test::TableWorld world;
    ASSERT_VALUE(const auto base, test::CreateRowTable(world.context(), "t"));
    pb::transaction::Transaction theirs;
    if (known) theirs.mutable_overwrite();
    CommitForeign(world.store(), theirs);
    const auto after = Append(base, "a", 1);
    ASSERT_KIND(ErrorKind::kConflict, after);
    EXPECT_NE(after.status().message().find(known ? "overwrite" : "unknown operation"),
              std::string::npos);
  }
}

TEST(Commit, IndexEntriesAreReplacedByNameAndForeignChangesAreConflicts) {
  test::TableWorld world;
  ASSERT_VALUE(const auto base, test::CreateRowTable(world.context(), "t"));
  ASSERT_VALUE(const auto one, base->CommitIndices({Index("i", "1"), Index("j", "2")}, {}));
  ASSERT_KIND(ErrorKind::kConflict, one->CommitIndices({Index("i", "3")}, {}));
  ASSERT_VALUE(const auto two, one->CommitIndices({Index("i", "3")}, {"i"}));
  EXPECT_EQ(two->indices().indices_size(), 2);
  ASSERT_KIND(ErrorKind::kConflict, one->CommitIndices({Index("i", "4")}, {"i"}));
  ASSERT_VALUE(const auto three, Append(one, "a", 1));
  ASSERT_VALUE(const auto four, two->CommitIndices({}, {"i", "j"}));
  EXPECT_EQ(four->indices().indices_size(), 0);
  EXPECT_EQ(four->manifest().fragments_size(), 1);
}

TEST(Commit, StableRowIdsRefuseAppendsByName) {
  test::TableWorld world;
  ASSERT_VALUE(const auto base, test::CreateRowTable(world.context(), "t"));
  pb::transaction::Transaction config;
  config.set_update_config("");
  CommitForeign(world.store(), config, [](LoadedManifest& next) {
    next.manifest.set_reader_feature_flags(kFlagStableRowIds);
    next.manifest.set_writer_feature_flags(kFlagStableRowIds);
  });
  const auto after = Append(base, "a", 1);
  ASSERT_KIND(ErrorKind::kUnsupported, after);
  EXPECT_NE(after.status().message().find("stable row ids"), std::string::npos);
}

TEST(Commit, UnknownWriterFlagsStopWritersOnly) {
  test::TableWorld world;
  ASSERT_TRUE(test::CreateRowTable(world.context(), "t").ok());
  pb::transaction::Transaction config;
  config.set_update_config("");
  CommitForeign(world.store(), config,
                [](LoadedManifest& next) { next.manifest.set_writer_feature_flags(512); });
  ASSERT_VALUE(const auto table, Table::Open(world.context(), "t"));
  ASSERT_KIND(ErrorKind::kUnsupported, Append(table, "a", 1));
}

TEST(Commit, OldNamingIsKept) {
  test::TableWorld world;
  ASSERT_TRUE(test::CreateRowTable(world.context(), "t").ok());
  const std::string name = "t/_versions/" + ManifestName(TableVersion(1));
  ASSERT_VALUE(const auto bytes, world.store().Get(name));
  ASSERT_TRUE(world.store()
                  .Put("t/_versions/1.manifest",
                       {bytes->data(), static_cast<size_t>(bytes->size())}, PutMode::kIfAbsent)
                  .ok());
  ASSERT_TRUE(world.store().Delete(name).ok());
  ASSERT_VALUE(const auto table, Table::Open(world.context(), "t"));
  ASSERT_TRUE(Append(table, "a", 1).ok());
  ASSERT_VALUE(const auto twice, Append(table, "b", 1));
  EXPECT_EQ(twice->version(), TableVersion(3));
  EXPECT_TRUE(world.store().Head("t/_versions/3.manifest").ok());
}

TEST(Commit, GoesAboveATornManifest) {
  test::TableWorld world;
  ASSERT_VALUE(const auto first, test::CreateRowTable(world.context(), "t"));
  ASSERT_TRUE(world.store()
                  .Put("t/_versions/" + ManifestName(TableVersion(2)), {}, PutMode::kIfAbsent)
                  .ok());
  ASSERT_VALUE(const auto table, Table::Open(world.context(), "t"));
  EXPECT_EQ(table->version(), TableVersion(1));
  ASSERT_VALUE(const auto after, Append(first, "a", 1));
  EXPECT_EQ(after->version(), TableVersion(3));
  ASSERT_VALUE(const auto again, Append(first, "b", 1));
  EXPECT_EQ(FilesOf(*again), (std::multiset<std::string>{"a", "b"}));
}

TEST(Commit, NeverFillsANameThatCleanUpFreed) {
  test::TableWorld world;
  ASSERT_VALUE(const auto first, test::CreateRowTable(world.context(), "t"));
  ASSERT_VALUE(const auto second, Append(first, "a", 1));
  ASSERT_VALUE(const auto third, Append(second, "b", 1));
  ASSERT_TRUE(world.store().Delete("t/_versions/" + ManifestName(TableVersion(2))).ok());
  ASSERT_KIND(ErrorKind::kConflict, Append(first, "c", 1));
  ASSERT_VALUE(const auto newest, FindNewestVersion(world.store(), "t"));
  EXPECT_EQ(newest, TableVersion(3));
}

TEST(Commit, AnAnswerThatIsLostIsSettledByReadingBack) {
  for (const bool landed : {true, false}) {
    test::TableWorld world;
    ASSERT_VALUE(const auto plain, test::CreateRowTable(world.context(), "t"));
    FaultStore faulty(world.store());
    ASSERT_VALUE(const auto table, Table::Open(world.context(faulty), "t"));
    faulty.AddRule(
        {.operation = StoreOperation::kFinish,
         .name_glob = "*.manifest",
         .nth = 1,
         .action = landed ? FaultAction::kLandedAnswerLost : FaultAction::kNotLandedAnswerLost});
    ASSERT_VALUE(const auto after, Append(table, "a", 1));
    EXPECT_EQ(after->version(), TableVersion(2));
    ASSERT_VALUE(const auto newest, Table::Open(world.context(), "t"));
    EXPECT_EQ(newest->version(), TableVersion(2));
    EXPECT_EQ(FilesOf(*newest), (std::multiset<std::string>{"a"}));
  }
}

TEST(Commit, AnAmbiguousPutThatAnotherWonGoesOnAboveIt) {
  test::TableWorld world;
  ASSERT_VALUE(const auto plain, test::CreateRowTable(world.context(), "t"));
  FaultStore faulty(world.store());
  ASSERT_VALUE(const auto table, Table::Open(world.context(faulty), "t"));
  faulty.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*.manifest",
                  .nth = 1,
                  .action = FaultAction::kNotLandedAnswerLost});
  // The other writer gets in between our listing and our put.
  bool raced = false;
  SyncPoints::Instance().Arm("lance.commit.before_manifest", [&] {
    if (std::exchange(raced, true)) return;
    EXPECT_TRUE(Append(plain, "theirs", 1).ok());
  });
  const auto result = Append(table, "ours", 1);
  SyncPoints::Instance().Clear();
  ASSERT_VALUE(const auto after, result);
  EXPECT_EQ(after->version(), TableVersion(3));
  EXPECT_EQ(FilesOf(*after), (std::multiset<std::string>{"ours", "theirs"}));
}

// Its bytes can be read, but a second put does not find them durable.
TEST(Commit, AManifestThatIsVisibleButPerhapsNotDurableIsNotACommit) {
  test::TableWorld world;
  ASSERT_TRUE(test::CreateRowTable(world.context(), "t").ok());
  FaultStore faulty(world.store());
  ASSERT_VALUE(const auto table, Table::Open(world.context(faulty), "t"));
  faulty.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*.manifest",
                  .nth = 1,
                  .action = FaultAction::kLandedAnswerLost});
  faulty.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*.manifest",
                  .action = FaultAction::kFail,
                  .status = MakeError(ErrorKind::kIo, "the sync failed")});
  ASSERT_KIND(ErrorKind::kOutcomeUnknown, Append(table, "a", 1));
}

TEST(Commit, AnOutcomeThatStaysUnknownIsSaidSo) {
  test::TableWorld world;
  ASSERT_TRUE(test::CreateRowTable(world.context(), "t").ok());
  FaultStore faulty(world.store());
  ASSERT_VALUE(const auto table, Table::Open(world.context(faulty), "t"));
  faulty.AddRule({.operation = StoreOperation::kFinish,
                  .name_glob = "*.manifest",
                  .action = FaultAction::kNotLandedAnswerLost});
  ASSERT_KIND(ErrorKind::kOutcomeUnknown, Append(table, "a", 1));
}

void ManyThreadsLoseNothing(const TableContext& context) {
  ASSERT_VALUE(const auto empty, test::CreateRowTable(context, "t"));
  ASSERT_VALUE(const auto base, Append(empty, "base", 1000));
  constexpr int kThreads = 4;
  constexpr int kCommits = 8;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::shared_ptr<Table> table = base;
      for (int i = 0; i < kCommits; ++i) {
        const bool append = (thread + i) % 2 == 0;
        const RowAddress row = static_cast<RowAddress>(thread * 100 + i);
        // A conflict is only ever "too many attempts": try again.
        while (true) {
          const auto next = append ? Append(table, fmt::format("{}-{}", thread, i), 10)
                                   : table->CommitDelete(std::vector<RowAddress>{row});
          if (next.ok()) {
            table = *next;
            break;
          }
          if (KindOf(next.status()) != ErrorKind::kConflict) {
            ADD_FAILURE() << next.status().ToString();
            ++failures;
            return;
          }
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_EQ(failures.load(), 0);
  ASSERT_VALUE(const auto table, Table::Open(context, "t"));
  EXPECT_EQ(table->version(), TableVersion(2 + kThreads * kCommits));
  EXPECT_EQ(FilesOf(*table).size(), 1u + kThreads * kCommits / 2);
  EXPECT_EQ(table->manifest().fragments(0).deletion_file().num_deleted_rows(),
            uint64_t{kThreads * kCommits / 2});
  std::set<uint64_t> ids;
  for (const auto& fragment : table->manifest().fragments()) ids.insert(fragment.id());
  EXPECT_EQ(ids.size(), static_cast<size_t>(table->manifest().fragments_size()));
}

TEST(Commit, ManyThreadsLoseNothingInMemory) {
  test::TableWorld world;
  ManyThreadsLoseNothing(world.context());
}

TEST(Commit, ManyThreadsLoseNothingOnDisk) {
  test::ScratchDirectory directory;
  env::PosixEnv posix;
  ASSERT_VALUE(const auto store,
               object_store::LocalStore::Open(*posix.env().file_system, *posix.env().random,
                                              directory / "root"));
  ManyThreadsLoseNothing({store.get(), &posix.env()});
}

}  // namespace
}  // namespace sarissa::lance
