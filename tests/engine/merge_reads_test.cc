// What the engine's readers see of merges: the same before, during and after them.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/sync_point.h"
#include "engine/catalog.h"
#include "env/posix/posix_env.h"
#include "memwal/mem_wal_index.h"
#include "memwal/merge.h"
#include "memwal/names.h"
#include "memwal/shard_manifest.h"
#include "memwal/shard_writer.h"
#include "object_store/fault_store.h"
#include "object_store/memory_store.h"
#include "tests/engine/waiting_catalog.h"
#include "tests/memwal/rows.h"

namespace sarissa::engine {
namespace {

using testing::CreateNow;
using testing::DeleteNow;
using testing::EvictNow;
using testing::FindNow;

using memwal::testing::KeyedBase;
using memwal::testing::KeyedRows;
using memwal::testing::KeyedStorage;
using memwal::testing::UserBatch;

constexpr env::Duration kWait = std::chrono::seconds(60);
constexpr char kTable[] = "exp.rollout.lance";

KeyedRows RowsOf(lance::BatchStream& stream) {
  KeyedRows rows;
  while (const auto batch = stream.Next().ValueOrDie()) {
    const auto& ids = static_cast<const arrow::StringArray&>(*batch->GetColumnByName("id"));
    const auto& values = static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("value"));
    for (int64_t row = 0; row < batch->num_rows(); ++row)
      rows.emplace_back(ids.GetString(row), values.Value(row));
  }
  return rows;
}

class MergeReads : public ::testing::Test {
 protected:
  MergeReads() {
    CatalogOptions options;
    options.schema = KeyedBase();
    options.uri_prefix = "./data/";
    options.instance_id = "default";
    options.flush_interval = {};
    catalog_ = Catalog::Open(store_, posix_.env(), options).ValueOrDie();
    table_ = CreateNow(*catalog_, "exp").ValueOrDie();
  }
  ~MergeReads() override { SyncPoints::Instance().Clear(); }

  KeyedRows Read() { return RowsOf(*table_->Scan({}).ValueOrDie()); }
  // Of single reads.
  KeyedRows Get(const std::vector<std::string>& keys) {
    KeyedRows rows;
    for (const std::string& key : keys) {
      const auto row = table_->Get(key, std::nullopt).ValueOrDie();
      if (row == nullptr) continue;
      rows.emplace_back(key, static_cast<const arrow::Int64Array&>(*row->column(1)).Value(0));
    }
    return rows;
  }
  void Flush(const KeyedRows& rows) {
    ASSERT_TRUE(table_->Append({UserBatch(rows)}, {}).Wait(kWait).ok());
    ASSERT_TRUE(table_->Flush().Wait(kWait).ok());
  }
  // A generation of another server's shard, whose rows are tombstones.
  void FlushTombstones(const ShardId& shard, const std::vector<std::string>& keys) {
    memwal::ShardOptions options;
    options.store = &store_;
    options.env = &posix_.env();
    options.table = kTable;
    options.shard = shard;
    options.storage_schema = KeyedStorage();
    const auto writer = memwal::ShardWriter::Open(options).ValueOrDie();
    arrow::StringBuilder ids;
    arrow::Int64Builder values;
    arrow::BooleanBuilder tombstones;
    for (const std::string& key : keys) {
      ASSERT_TRUE(ids.Append(key).ok() && values.AppendNull().ok() && tombstones.Append(true).ok());
    }
    const auto batch =
        arrow::RecordBatch::Make(KeyedStorage().arrow_schema(), static_cast<int64_t>(keys.size()),
                                 {ids.Finish().ValueOrDie(), values.Finish().ValueOrDie(),
                                  tombstones.Finish().ValueOrDie()});
    ASSERT_TRUE(writer->Append({batch}, {}).Wait(kWait).ok());
    ASSERT_TRUE(writer->Close().Wait(kWait).ok());
  }
  Status Merge(memwal::MergeReport& report, const std::string& instance = "default") {
    memwal::MergeOptions options;
    options.store = &store_;
    options.env = &posix_.env();
    options.table = kTable;
    options.shard = ShardId::FromName(instance);
    return memwal::MergeGenerations(options, report);
  }

  object_store::MemoryStore memory_;
  object_store::FaultStore store_{memory_};
  env::PosixEnv posix_;
  std::shared_ptr<Catalog> catalog_;
  std::shared_ptr<Table> table_;
};

TEST_F(MergeReads, ListAndGetAreTheSameAtEveryStepOfAMerge) {
  Flush({{"a", 1}, {"b", 1}, {"c", 1}});
  Flush({{"b", 2}, {"d", 2}});
  ASSERT_TRUE(table_->Append({UserBatch({{"c", 3}})}, {}).Wait(kWait).ok());
  const KeyedRows expected = {{"a", 1}, {"b", 2}, {"d", 2}, {"c", 3}};
  ASSERT_EQ(Read(), expected);
  int steps = 0;
  for (const char* point : {"merge.before_commit", "merge.after_commit", "merge.after_drain"}) {
    SyncPoints::Instance().Arm(point, [&, point] {
      ++steps;
      EXPECT_EQ(Read(), expected) << point;
      EXPECT_EQ(Get({"a", "b", "d", "c", "e"}), expected) << point;
    });
  }
  memwal::MergeReport report;
  ASSERT_TRUE(Merge(report).ok());
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(report.generations_merged, 2u);
  EXPECT_EQ(Read(), expected);
  EXPECT_EQ(table_->version(), report.version);
  Flush({{"a", 4}});
  EXPECT_EQ(Read(), (KeyedRows{{"b", 2}, {"d", 2}, {"c", 3}, {"a", 4}}));
  EXPECT_EQ(Get({"a", "b"}), (KeyedRows{{"a", 4}, {"b", 2}}));
}

TEST_F(MergeReads, AMergedGenerationIsNotOpenedThoughTheShardStillNamesIt) {
  Flush({{"a", 1}, {"b", 1}});
  object_store::FaultStore::RuleId rule = 0;
  SyncPoints::Instance().Arm("merge.after_commit", [&] {
    rule = store_.AddRule(
        {.operation = object_store::StoreOperation::kFinish, .name_glob = "*/manifest/*.binpb"});
  });
  memwal::MergeReport report;
  EXPECT_TRUE(Is(Merge(report), ErrorKind::kUnavailable));
  EXPECT_EQ(report.watermark, Generation(1));
  store_.RemoveRule(rule);
  // Its rows are gone: a reader that opened it would fail.
  const ShardId shard = ShardId::FromName("default");
  const auto manifest =
      memwal::ShardManifestStore(memory_, kTable, shard).ReadNewest().ValueOrDie();
  ASSERT_EQ(manifest->sstables_size(), 1);
  const std::string folder =
      memwal::ShardPrefix(kTable, shard) + manifest->sstables(0).path() + "/";
  ASSERT_TRUE(memory_.DeletePrefix(folder).ok());
  EXPECT_EQ(Read(), (KeyedRows{{"a", 1}, {"b", 1}}));
  EXPECT_EQ(Get({"a"}), (KeyedRows{{"a", 1}}));
}

TEST_F(MergeReads, ATombstoneOfAForeignShardHidesBeforeItsMergeWhatItRemovesByIt) {
  Flush({{"a", 1}, {"b", 1}});
  memwal::MergeReport report;
  ASSERT_TRUE(Merge(report).ok());
  FlushTombstones(ShardId::FromName("other"), {"a", "nowhere"});
  EXPECT_EQ(Read(), (KeyedRows{{"b", 1}}));
  EXPECT_EQ(Get({"a", "b"}), (KeyedRows{{"b", 1}}));
  ASSERT_TRUE(Merge(report, "other").ok());
  EXPECT_EQ(report.rows_deleted, 1u);
  EXPECT_EQ(Read(), (KeyedRows{{"b", 1}}));
  EXPECT_EQ(Get({"a", "b"}), (KeyedRows{{"b", 1}}));
  Flush({{"a", 2}});
  EXPECT_EQ(Read(), (KeyedRows{{"b", 1}, {"a", 2}}));
}

TEST_F(MergeReads, AScanThatBeganBeforeTheMergeEndsWithTheRowsOfThen) {
  Flush({{"a", 1}, {"b", 1}});
  const auto stream = table_->Scan({}).ValueOrDie();
  Flush({{"a", 2}});
  memwal::MergeReport report;
  ASSERT_TRUE(Merge(report).ok());
  EXPECT_EQ(RowsOf(*stream), (KeyedRows{{"a", 1}, {"b", 1}}));
  EXPECT_EQ(Read(), (KeyedRows{{"b", 1}, {"a", 2}}));
}

TEST_F(MergeReads, MemtablesOfAWriterThatWasPassedHideNothingOfItsSuccessors) {
  // Two memtables: one whose flush does not come through, one after it.
  ASSERT_TRUE(table_->Append({UserBatch({{"a", 1}})}, {}).Wait(kWait).ok());
  store_.AddRule(
      {.operation = object_store::StoreOperation::kFinish, .name_glob = "*/manifest/*.binpb"});
  const auto flush = table_->Flush();
  ASSERT_TRUE(table_->Append({UserBatch({{"b", 1}, {"c", 1}})}, {}).Wait(kWait).ok());
  // The successor has all of it in the first number, and an append that replaces half of it.
  CatalogOptions options;
  options.schema = KeyedBase();
  options.instance_id = "default";
  options.flush_interval = {};
  const auto successor = Catalog::Open(memory_, posix_.env(), options).ValueOrDie();
  const auto table = FindNow(*successor, "exp").ValueOrDie();
  ASSERT_TRUE(table->Append({UserBatch({{"b", 2}, {"d", 2}})}, {}).Wait(kWait).ok());
  ASSERT_TRUE(table->Flush().Wait(kWait).ok());
  memwal::MergeOptions merge;
  merge.store = &memory_;
  merge.env = &posix_.env();
  merge.table = kTable;
  merge.shard = ShardId::FromName("default");
  memwal::MergeReport report;
  ASSERT_TRUE(memwal::MergeGenerations(merge, report).ok());
  EXPECT_EQ(Get({"a", "b", "c", "d"}), (KeyedRows{{"a", 1}, {"b", 2}, {"c", 1}, {"d", 2}}));
  KeyedRows rows = Read();
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (KeyedRows{{"a", 1}, {"b", 2}, {"c", 1}, {"d", 2}}));
}

TEST_F(MergeReads, ACheckedOutVersionShowsTheBaseAsItWasThen) {
  Flush({{"a", 1}});
  memwal::MergeReport first;
  ASSERT_TRUE(Merge(first).ok());
  Flush({{"a", 2}, {"b", 2}});
  memwal::MergeReport second;
  ASSERT_TRUE(Merge(second).ok());
  ASSERT_TRUE(table_->Checkout(first.version).ok());
  EXPECT_EQ(Read(), (KeyedRows{{"a", 1}}));
  ASSERT_TRUE(table_->Checkout(std::nullopt).ok());
  EXPECT_EQ(Read(), (KeyedRows{{"a", 2}, {"b", 2}}));
}

}  // namespace
}  // namespace sarissa::engine
