// CommitUpsert: one commit, its watermarks, and what it may be rebased over.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "lance/table/commit.h"
#include "lance/table/compaction_watermark.h"
#include "lance/table/table.h"
#include "tests/lance/table_world.h"

namespace sarissa::lance {
namespace {

using object_store::PutMode;
using test::FakeFragment;

const ShardId kShard = ShardId::FromName("one");
const ShardId kOther = ShardId::FromName("two");

class UpsertTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_VALUE(const auto empty, test::CreateRowTable(world_.context(), "t"));
    pb::table::IndexMetadata entry;
    entry.set_name(kMemWalIndexName);
    entry.mutable_uuid()->set_uuid(std::string(16, 'm'));
    ASSERT_VALUE(const auto marked, empty->CommitIndices({entry}, {}));
    ASSERT_VALUE(base_, marked->CommitAppend({FakeFragment("a", 5), FakeFragment("b", 5)}));
  }

  static Upsert Merge(std::vector<RowAddress> deleted, uint64_t generation,
                      const ShardId& shard = kShard) {
    Upsert upsert;
    upsert.deleted = std::move(deleted);
    upsert.appended = {FakeFragment("new", 2)};
    upsert.compacted = {{shard, Generation(generation)}};
    return upsert;
  }

  std::shared_ptr<Table> Newest() { return Table::Open(world_.context(), "t").ValueOrDie(); }

  // Commits a foreign transaction on top of the newest version.
  void CommitForeign(
      pb::transaction::Transaction transaction,
      const std::function<void(LoadedManifest&)>& edit = [](LoadedManifest&) {}) {
    ASSERT_VALUE(TableTip tip, FindTip(world_.store(), "t"));
    transaction.set_uuid("foreign");
    LoadedManifest& next = tip.newest.loaded;
    edit(next);
    next.manifest.set_version(tip.taken.value() + 1);
    next.manifest.clear_transaction_file();
    next.transaction = transaction;
    ASSERT_VALUE(const std::string bytes, SerializeManifest(next));
    ASSERT_TRUE(world_.store()
                    .Put("t/_versions/" + ManifestName(tip.taken.Next(), tip.newest.naming),
                         {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                         PutMode::kIfAbsent)
                    .ok());
  }

  test::TableWorld world_;
  std::shared_ptr<Table> base_;
};

TEST_F(UpsertTest, DeletesAppendsAndRaisesTheWatermarkInOneCommit) {
  const RowAddress b = 1ULL << 32;
  ASSERT_VALUE(const auto after,
               base_->CommitUpsert(Merge({1, 3, 1, b, b + 1, b + 2, b + 3, b + 4}, 4)));
  EXPECT_EQ(after->version(), base_->version().Next());
  EXPECT_EQ(after->CountRows(), 5u);
  ASSERT_EQ(after->manifest().fragments_size(), 2);
  EXPECT_EQ(after->manifest().fragments(0).id(), 0u);
  EXPECT_EQ(after->manifest().fragments(1).id(), 2u);
  ASSERT_VALUE(const auto tip, FindTip(world_.store(), "t"));
  const auto& update = tip.newest.loaded.transaction->update();
  ASSERT_EQ(update.removed_fragment_ids_size(), 1);
  EXPECT_EQ(update.removed_fragment_ids(0), 1u);
  ASSERT_EQ(update.updated_fragments_size(), 1);
  EXPECT_EQ(update.updated_fragments(0).deletion_file().num_deleted_rows(), 2u);
  ASSERT_EQ(update.new_fragments_size(), 1);
  ASSERT_EQ(update.compacted_sstables_size(), 1);
  EXPECT_EQ(update.compacted_sstables(0).generation(), 4u);
  EXPECT_EQ(update.fields_for_preserving_frag_bitmap_size(), 2);
}

TEST_F(UpsertTest, AWatermarkThatIsNotAboveTheRecordedOneIsStaleAndCostsNoWrite) {
  ASSERT_TRUE(base_->CommitUpsert(Merge({0}, 4)).ok());
  const auto newest = Newest();
  const auto count = [&] {
    return world_.store().List("t/", {.recursive = true}).ValueOrDie().objects.size();
  };
  const auto objects = count();
  for (const uint64_t generation : {4, 3, 0}) {
    const auto stale = newest->CommitUpsert(Merge({1}, generation));
    ASSERT_KIND(ErrorKind::kConflict, stale);
    EXPECT_NE(stale.status().message().find("stale"), std::string::npos) << stale.status();
  }
  EXPECT_EQ(count(), objects);
  EXPECT_EQ(Newest()->version(), newest->version());
  EXPECT_TRUE(newest->CommitUpsert(Merge({1}, 5)).ok());
}

TEST_F(UpsertTest, AShardNamedTwiceOrATableWithoutAnEntryIsInvalid) {
  Upsert twice = Merge({}, 1);
  twice.compacted.push_back({kShard, Generation(2)});
  ASSERT_KIND(ErrorKind::kInvalid, base_->CommitUpsert(std::move(twice)));
  ASSERT_VALUE(const auto plain, test::CreateRowTable(world_.context(), "plain"));
  ASSERT_KIND(ErrorKind::kInvalid, plain->CommitUpsert(Merge({}, 1)));
  ASSERT_KIND(ErrorKind::kNotFound, base_->CommitUpsert(Merge({5}, 1)));
}

TEST_F(UpsertTest, GoesOnTopOfWhatTouchesNoneOfItsRows) {
  const RowAddress b = 1ULL << 32;
  ASSERT_TRUE(base_->CommitAppend({FakeFragment("c", 1)}).ok());
  ASSERT_TRUE(base_->CommitDelete(std::vector<RowAddress>{b}).ok());
  pb::table::IndexMetadata index;
  index.set_name("i");
  ASSERT_TRUE(base_->CommitIndices({index}, {}).ok());
  pb::transaction::Transaction config;
  config.set_update_config("");
  CommitForeign(config);
  // An update that only deletes, and moves another shard's watermark.
  pb::transaction::Transaction update;
  update.mutable_update()->add_updated_fragments()->set_id(1);
  *update.mutable_update()->add_compacted_sstables() = ToProto({kOther, Generation(9)});
  CommitForeign(update, [&](LoadedManifest& next) {
    EXPECT_TRUE(
        RaiseWatermarks({{kOther, Generation(9)}}, TableVersion(8), world_.env(), next.indices)
            .ok());
  });
  ASSERT_VALUE(const auto after, base_->CommitUpsert(Merge({0, 1}, 1)));
  EXPECT_EQ(after->CountRows(), 3u + 4 + 1 + 2);
  EXPECT_EQ(after->indices().indices_size(), 2);
  pb::mem_wal::MemWalIndexDetails details;
  ASSERT_TRUE(details.ParseFromString(after->indices().indices(0).index_details().value()));
  EXPECT_EQ(details.compacted_sstables_size(), 2) << "one entry for each shard";
}

TEST_F(UpsertTest, EverythingThatMayHaveChangedItsRowsIsAConflict) {
  using pb::transaction::Transaction;
  const std::vector<std::pair<std::string, std::function<void(Transaction&)>>> cases = {
      {"a delete in its fragment",
       [](auto& t) { t.mutable_delete_()->add_updated_fragments()->set_id(0); }},
      {"a delete of its fragment",
       [](auto& t) { t.mutable_delete_()->add_deleted_fragment_ids(0); }},
      {"an update in its fragment",
       [](auto& t) { t.mutable_update()->add_updated_fragments()->set_id(0); }},
      {"an update that removes its fragment",
       [](auto& t) { t.mutable_update()->add_removed_fragment_ids(0); }},
      {"an update that inserts rows", [](auto& t) { t.mutable_update()->add_new_fragments(); }},
      {"an update that moves its watermark",
       [](auto& t) {
         *t.mutable_update()->add_compacted_sstables() = ToProto({kShard, Generation(1)});
       }},
      {"a watermark without data",
       [](auto& t) {
         *t.mutable_update_mem_wal_state()->add_compacted_sstables() =
             ToProto({kShard, Generation(1)});
       }},
      {"a watermark of a shard that cannot be told",
       [](auto& t) { t.mutable_update()->add_compacted_sstables()->set_generation(1); }},
      {"a compaction", [](auto& t) { t.set_rewrite(""); }},
      {"an overwrite", [](auto& t) { t.mutable_overwrite(); }},
      {"a restore", [](auto& t) { t.set_restore(""); }},
      {"an unknown operation", [](auto&) {}},
  };
  for (const auto& [name, fill] : cases) {
    SCOPED_TRACE(name);
    const auto base = Newest();
    Transaction theirs;
    fill(theirs);
    CommitForeign(theirs);
    const TableVersion version = Newest()->version();
    ASSERT_KIND(ErrorKind::kConflict, base->CommitUpsert(Merge({0}, 7)));
    EXPECT_EQ(Newest()->version(), version);
  }
}

TEST_F(UpsertTest, AFragmentThatChangedWithoutBeingNamedIsAConflict) {
  pb::transaction::Transaction quiet;
  quiet.mutable_append();
  CommitForeign(quiet, [](LoadedManifest& next) {
    next.manifest.mutable_fragments(0)->mutable_files(0)->set_path("else");
  });
  ASSERT_KIND(ErrorKind::kConflict, base_->CommitUpsert(Merge({0}, 1)));
}

TEST_F(UpsertTest, WithoutAnythingToDoThereIsNoCommit) {
  ASSERT_VALUE(const auto same, base_->CommitUpsert({}));
  EXPECT_EQ(same->version(), base_->version());
  Upsert plain;
  plain.deleted = {0};
  ASSERT_VALUE(const auto after, base_->CommitUpsert(std::move(plain)));
  EXPECT_EQ(after->CountRows(), 9u);
  EXPECT_EQ(after->indices().SerializeAsString(), base_->indices().SerializeAsString())
      << "no watermark, no new entry";
}

}  // namespace
}  // namespace sarissa::lance
