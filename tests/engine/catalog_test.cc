// Tables and catalogs through their public interface, over a memory store and real threads.
#include "engine/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "env/posix/posix_env.h"
#include "env/sim/sim_env.h"
#include "env/sim/sim_random.h"
#include "memwal/shard_writer.h"
#include "object_store/fault_store.h"
#include "object_store/memory_store.h"
#include "tests/counts.h"
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
using memwal::testing::UserBatch;

constexpr env::Duration kWait = std::chrono::seconds(60);

// Rows whose value is in [least, most].
class ValueRange final : public Predicate {
 public:
  ValueRange(int64_t least, int64_t most) : least_(least), most_(most) {}
  const std::vector<std::string>& columns() const override { return columns_; }
  Status Evaluate(const arrow::RecordBatch& batch, std::vector<uint8_t>& keep) const override {
    const auto& values = static_cast<const arrow::Int64Array&>(*batch.GetColumnByName("value"));
    for (int64_t row = 0; row < batch.num_rows(); ++row) {
      if (values.Value(row) < least_ || values.Value(row) > most_)
        keep[static_cast<size_t>(row)] = 0;
    }
    return Status::OK();
  }

 private:
  const std::vector<std::string> columns_ = {"value"};
  const int64_t least_;
  const int64_t most_;
};

KeyedRows Read(Table& table, const ReadOptions& options = {}) {
  auto stream = table.Scan(options).ValueOrDie();
  KeyedRows rows;
  while (const auto batch = stream->Next().ValueOrDie()) {
    const auto& ids = static_cast<const arrow::StringArray&>(*batch->GetColumnByName("id"));
    const auto& values = static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("value"));
    for (int64_t row = 0; row < batch->num_rows(); ++row)
      rows.emplace_back(ids.GetString(row), values.Value(row));
  }
  return rows;
}

Status Append(Table& table, const KeyedRows& rows) {
  return table.Append({UserBatch(rows)}, {}).Wait(kWait).status();
}

Status Flush(Table& table) {
  return table.Flush().Wait(kWait).status();
}

class CatalogTest : public ::testing::Test {
 protected:
  std::shared_ptr<Catalog> OpenCatalog(const std::string& instance = "default") {
    CatalogOptions options;
    options.schema = KeyedBase();
    options.uri_prefix = "./data/";
    options.instance_id = instance;
    options.flush_interval = {};
    return Catalog::Open(store_, posix_.env(), options).ValueOrDie();
  }

  object_store::MemoryStore memory_;
  object_store::FaultStore store_{memory_};
  env::PosixEnv posix_;
};

TEST_F(CatalogTest, AStoreIsCreatedOnceListedAndFoundAgainAfterAReopen) {
  {
    const auto catalog = OpenCatalog();
    EXPECT_TRUE(Is(FindNow(*catalog, "exp").status(), ErrorKind::kNotFound));
    const auto table = CreateNow(*catalog, "exp").ValueOrDie();
    EXPECT_EQ(table->version(), TableVersion(2)) << "an empty table, then its MemWAL entry";
    EXPECT_TRUE(Is(CreateNow(*catalog, "exp").status(), ErrorKind::kAlreadyExists));
    ASSERT_TRUE(CreateNow(*catalog, "another").ok());
    ASSERT_TRUE(Append(*table, {{"a", 1}}).ok());
    EXPECT_TRUE(catalog->Close(kWait).ok());
    EXPECT_TRUE(Is(FindNow(*catalog, "exp").status(), ErrorKind::kCancelled));
  }
  const auto catalog = OpenCatalog();
  const auto infos = catalog->List({}).ValueOrDie().tables;
  ASSERT_EQ(infos.size(), 2u);
  EXPECT_EQ(infos[0].name, "another");
  EXPECT_EQ(infos[1].uri, "./data/exp.rollout.lance");
  EXPECT_EQ(catalog->open_tables(), 0u) << "opening the catalog opens no table";
  EXPECT_EQ(Read(**FindNow(*catalog, "exp")), (KeyedRows{{"a", 1}}));
}

TEST_F(CatalogTest, RowsThatWereOnlyInTheLogAreThereAfterAReopen) {
  {
    const auto catalog = OpenCatalog();
    const auto table = CreateNow(*catalog, "exp").ValueOrDie();
    ASSERT_TRUE(Append(*table, {{"a", 1}, {"b", 2}}).ok());
  }
  EXPECT_EQ(Read(**FindNow(*OpenCatalog(), "exp")), (KeyedRows{{"a", 1}, {"b", 2}}));
}

TEST_F(CatalogTest, ADeletedStoreIsGoneAndItsNameStartsEmpty) {
  const auto catalog = OpenCatalog();
  auto table = CreateNow(*catalog, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*table, {{"a", 1}}).ok());
  ASSERT_TRUE(DeleteNow(*catalog, "exp").ok());
  EXPECT_TRUE(Is(FindNow(*catalog, "exp").status(), ErrorKind::kNotFound));
  EXPECT_TRUE(Is(DeleteNow(*catalog, "exp"), ErrorKind::kNotFound));
  EXPECT_FALSE(Append(*table, {{"b", 2}}).ok()) << "a handle of the deleted store";
  EXPECT_TRUE(memory_.List("exp.rollout.lance/", {.recursive = true}).ValueOrDie().objects.empty());
  table = CreateNow(*catalog, "exp").ValueOrDie();
  EXPECT_TRUE(Read(*table).empty());
  ASSERT_TRUE(Append(*table, {{"c", 3}}).ok());
  EXPECT_EQ(Read(*table), (KeyedRows{{"c", 3}}));
}

TEST_F(CatalogTest, ADeleteThatFailedCanBeRepeated) {
  const auto catalog = OpenCatalog();
  ASSERT_TRUE(CreateNow(*catalog, "exp").ok());
  const auto rule = store_.AddRule({.operation = object_store::StoreOperation::kDeletePrefix});
  EXPECT_FALSE(DeleteNow(*catalog, "exp").ok());
  EXPECT_EQ(catalog->List({}).ValueOrDie().tables.size(), 1u);
  store_.RemoveRule(rule);
  EXPECT_TRUE(DeleteNow(*catalog, "exp").ok());
  EXPECT_TRUE(catalog->List({}).ValueOrDie().tables.empty());
}

TEST_F(CatalogTest, ATableWithoutARegistryRowIsAdoptedWithItsRows) {
  {
    const auto catalog = OpenCatalog();
    ASSERT_TRUE(Append(**CreateNow(*catalog, "exp"), {{"a", 1}}).ok());
    ASSERT_TRUE(catalog->Close(kWait).ok());
  }
  ASSERT_TRUE(store_.DeletePrefix("_registry.rollout.lance/").ok());
  const auto catalog = OpenCatalog();
  EXPECT_TRUE(Is(FindNow(*catalog, "exp").status(), ErrorKind::kNotFound));
  EXPECT_EQ(Read(**CreateNow(*catalog, "exp")), (KeyedRows{{"a", 1}}));
}

TEST_F(CatalogTest, TheNewestRowOfAnIdWinsInEveryTierAndMovesToTheEnd) {
  const auto catalog = OpenCatalog();
  const auto table = CreateNow(*catalog, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*table, {{"a", 1}, {"b", 2}, {"c", 3}}).ok());
  ASSERT_TRUE(Flush(*table).ok());
  ASSERT_TRUE(Append(*table, {{"a", 4}, {"d", 5}}).ok());
  ASSERT_TRUE(Flush(*table).ok());
  ASSERT_TRUE(Append(*table, {{"b", 6}, {"b", 7}}).ok());
  EXPECT_EQ(Read(*table), (KeyedRows{{"c", 3}, {"a", 4}, {"d", 5}, {"b", 7}}));
  for (const auto& [key, value] : KeyedRows{{"c", 3}, {"a", 4}, {"d", 5}, {"b", 7}}) {
    const auto row = table->Get(key, std::nullopt).ValueOrDie();
    ASSERT_NE(row, nullptr) << key;
    EXPECT_EQ(static_cast<const arrow::Int64Array&>(*row->GetColumnByName("value")).Value(0),
              value);
  }
  EXPECT_EQ(table->Get("nobody", std::nullopt).ValueOrDie(), nullptr);
}

TEST_F(CatalogTest, TwoServersSeeEachOthersFlushedRows) {
  const auto first = OpenCatalog("one");
  const auto second = OpenCatalog("two");
  const auto here = CreateNow(*first, "exp").ValueOrDie();
  const auto there = FindNow(*second, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*here, {{"a", 1}}).ok());
  EXPECT_TRUE(Read(*there).empty());
  ASSERT_TRUE(Flush(*here).ok());
  EXPECT_EQ(Read(*there), (KeyedRows{{"a", 1}}));
  ASSERT_TRUE(Append(*there, {{"b", 2}}).ok());
  ASSERT_TRUE(Flush(*there).ok());
  KeyedRows rows = Read(*here);
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (KeyedRows{{"a", 1}, {"b", 2}}));
}

TEST_F(CatalogTest, AnIdWrittenThroughTwoServersHasOneWinnerEverywhere) {
  const auto first = OpenCatalog("one");
  const auto second = OpenCatalog("two");
  const auto here = CreateNow(*first, "exp").ValueOrDie();
  const auto there = FindNow(*second, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*here, {{"a", 1}}).ok());
  ASSERT_TRUE(Append(*there, {{"a", 2}}).ok());
  ASSERT_TRUE(Flush(*here).ok());
  ASSERT_TRUE(Flush(*there).ok());
  const int64_t winner = ShardId::FromName("one") < ShardId::FromName("two") ? 2 : 1;
  EXPECT_EQ(Read(*here), (KeyedRows{{"a", winner}}));
  EXPECT_EQ(Read(*there), (KeyedRows{{"a", winner}}));
  EXPECT_EQ(Read(**FindNow(*OpenCatalog("three"), "exp")), (KeyedRows{{"a", winner}}));
}

TEST_F(CatalogTest, ASecondServerWithTheSameInstanceFencesTheFirst) {
  const auto first = OpenCatalog();
  const auto here = CreateNow(*first, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*here, {{"a", 1}}).ok());
  const auto second = OpenCatalog();
  const auto there = FindNow(*second, "exp").ValueOrDie();
  EXPECT_EQ(Read(*there), (KeyedRows{{"a", 1}})) << "replayed from the log";
  ASSERT_TRUE(Append(*there, {{"b", 2}}).ok());
  EXPECT_TRUE(Is(Append(*here, {{"c", 3}}), ErrorKind::kFenced));
  EXPECT_TRUE(Is(Append(*here, {{"c", 3}}), ErrorKind::kFenced))
      << "and does not take the store back";
  ASSERT_TRUE(Flush(*there).ok());
  EXPECT_EQ(Read(*here), Read(*there)) << "a fenced server shows what the owner has flushed";
}

TEST_F(CatalogTest, AFencedWriterStaysFencedAfterItsHandleWasEvicted) {
  const auto first = OpenCatalog();
  auto here = CreateNow(*first, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*here, {{"a", 1}}).ok());
  const auto second = OpenCatalog();
  const auto there = FindNow(*second, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*there, {{"b", 2}}).ok());
  ASSERT_TRUE(Is(Append(*here, {{"c", 3}}), ErrorKind::kFenced));
  EXPECT_EQ(first->Health().fenced, 1u);
  here.reset();
  ASSERT_TRUE(EvictNow(*first, "exp", kWait).ok());
  EXPECT_EQ(first->open_tables(), 0u);
  const auto again = FindNow(*first, "exp").ValueOrDie();
  EXPECT_TRUE(Is(Append(*again, {{"c", 3}}), ErrorKind::kFenced));
  ASSERT_TRUE(Append(*there, {{"d", 4}}).ok()) << "the owner is not disturbed";
  ASSERT_TRUE(Flush(*there).ok());
  EXPECT_EQ(Read(*again), Read(*there));
}

TEST_F(CatalogTest, AnEvictionDrainsAndTheNextOpenGoesOnUnderTheSameEpoch) {
  const auto catalog = OpenCatalog();
  ASSERT_TRUE(Append(**CreateNow(*catalog, "exp"), {{"a", 1}}).ok());
  const std::string log =
      "exp.rollout.lance/_mem_wal/" + ShardId::FromName("default").ToString() + "/wal/";
  for (size_t evictions = 1; evictions < 4; ++evictions) {
    ASSERT_TRUE(EvictNow(*catalog, "exp", kWait).ok());
    const auto table = FindNow(*catalog, "exp").ValueOrDie();
    EXPECT_EQ(Read(*table).size(), evictions);
    ASSERT_TRUE(Append(*table, {{fmt::format("k{}", evictions), 1}}).ok());
    EXPECT_EQ(memory_.List(log, {}).ValueOrDie().objects.size(), evictions + 1)
        << "no sentinel for a claim that goes on";
  }
}

TEST_F(CatalogTest, AnEvictionThatCannotDrainLeavesTheStoreOpenOneThatFailedHeals) {
  CatalogOptions options;
  options.schema = KeyedBase();
  options.flush_interval = {};
  options.flush_fail_deadline = std::chrono::hours(1);
  const auto catalog = Catalog::Open(store_, posix_.env(), options).ValueOrDie();
  auto table = CreateNow(*catalog, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*table, {{"a", 1}}).ok());
  const auto rule = store_.AddRule({.operation = object_store::StoreOperation::kCreate,
                                    .name_glob = "*_gen_*",
                                    .status = MakeError(ErrorKind::kIo, "EIO")});
  EXPECT_TRUE(Is(Flush(*table), ErrorKind::kFailedWriter));
  EXPECT_EQ(catalog->Health().failed, 1u);
  EXPECT_EQ(catalog->Health().troubles.front().table, "exp");
  store_.RemoveRule(rule);
  table.reset();
  ASSERT_TRUE(EvictNow(*catalog, "exp", kWait).ok());
  auto healed = FindNow(*catalog, "exp").ValueOrDie();
  EXPECT_EQ(Read(*healed), (KeyedRows{{"a", 1}}));
  EXPECT_TRUE(Flush(*healed).ok());

  ASSERT_TRUE(Append(*healed, {{"b", 2}}).ok());
  store_.AddRule({.operation = object_store::StoreOperation::kCreate, .name_glob = "*_gen_*"});
  healed.reset();
  EXPECT_TRUE(
      Is(EvictNow(*catalog, "exp", std::chrono::milliseconds(20)), ErrorKind::kFailedWriter));
  EXPECT_EQ(catalog->open_tables(), 1u);
  store_.ClearRules();
}

TEST_F(CatalogTest, AFlushThatTakesTooLongSaysWhy) {
  CatalogOptions options;
  options.schema = KeyedBase();
  options.flush_interval = {};
  options.flush_fail_deadline = std::chrono::hours(1);
  options.flush_wait = std::chrono::milliseconds(50);
  const auto catalog = Catalog::Open(store_, posix_.env(), options).ValueOrDie();
  const auto table = CreateNow(*catalog, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*table, {{"a", 1}}).ok());
  store_.AddRule({.operation = object_store::StoreOperation::kCreate,
                  .name_glob = "*_gen_*",
                  .status = MakeError(ErrorKind::kUnavailable, "the bucket is away")});
  const Status late = Flush(*table);
  EXPECT_TRUE(Is(late, ErrorKind::kDeadline)) << late;
  EXPECT_NE(late.message().find("the bucket is away"), std::string::npos) << late;
  EXPECT_EQ(catalog->Health().retrying, 1u);
  store_.ClearRules();
  EXPECT_EQ(Read(*table), (KeyedRows{{"a", 1}}));
}

// Random appends and flushes against a model; every read of every shape must agree.
TEST_F(CatalogTest, ReadsAgreeWithAModelWhateverTheTiers) {
  const uint64_t seed = tests::SeedFor("CatalogTest.ReadsAgreeWithAModelWhateverTheTiers");
  SCOPED_TRACE(fmt::format("seed {}", seed));
  env::SimRandom random(seed);
  const auto catalog = OpenCatalog();
  for (int history = 0; history < tests::kReadHistories; ++history) {
    const auto table = CreateNow(*catalog, fmt::format("exp{}", history)).ValueOrDie();
    KeyedRows model;  // in list order
    int64_t value = 0;
    for (int step = 0; step < 10; ++step) {
      KeyedRows rows(1 + random.Below(8));
      for (auto& row : rows) {
        row = {fmt::format("k{}", random.Below(20)), ++value};
        std::erase_if(model, [&](const auto& old) { return old.first == row.first; });
        model.push_back(row);
      }
      ASSERT_TRUE(Append(*table, rows).ok());
      if (random.Below(3) == 0) {
        ASSERT_TRUE(Flush(*table).ok());
      }
      ASSERT_EQ(Read(*table), model);

      ReadOptions page;
      page.offset = random.Below(12);
      page.limit = random.Below(12);
      page.batch_rows = 1 + random.Below(5);
      const auto least = static_cast<int64_t>(random.Below(static_cast<uint64_t>(value) + 1));
      const bool filtered = random.Below(2) == 0;
      if (filtered) page.filter = std::make_shared<ValueRange>(least, least + 15);
      KeyedRows expected;
      for (const auto& row : model) {
        if (!filtered || (row.second >= least && row.second <= least + 15)) expected.push_back(row);
      }
      const size_t skipped = std::min<size_t>(page.offset, expected.size());
      expected.erase(expected.begin(), expected.begin() + static_cast<int64_t>(skipped));
      if (expected.size() > *page.limit) expected.resize(*page.limit);
      ASSERT_EQ(Read(*table, page), expected)
          << "offset " << page.offset << " limit " << *page.limit;
    }
  }
}

TEST_F(CatalogTest, APinShowsItsBaseVersionRefusesNoAppendAndEnds) {
  const auto catalog = OpenCatalog();
  const auto table = CreateNow(*catalog, "exp").ValueOrDie();
  ASSERT_TRUE(Append(*table, {{"a", 1}}).ok());
  EXPECT_TRUE(Is(table->Checkout(TableVersion(9)).status(), ErrorKind::kNotFound));
  EXPECT_TRUE(Is(table->Checkout(TableVersion(0)).status(), ErrorKind::kNotFound));
  EXPECT_EQ(Read(*table).size(), 1u) << "a version that is not there pins nothing";
  EXPECT_EQ(table->Checkout(TableVersion(1)).ValueOrDie(), TableVersion(1));
  EXPECT_EQ(table->version(), TableVersion(1));
  EXPECT_TRUE(Read(*table).empty());
  EXPECT_EQ(table->Get("a", std::nullopt).ValueOrDie(), nullptr);
  ASSERT_TRUE(Append(*table, {{"b", 2}}).ok());
  EXPECT_EQ(table->Checkout(std::nullopt).ValueOrDie(), TableVersion(2));
  EXPECT_EQ(Read(*table), (KeyedRows{{"a", 1}, {"b", 2}}));
}

TEST_F(CatalogTest, UnknownColumnsAreRefusedByName) {
  const auto catalog = OpenCatalog();
  const auto table = CreateNow(*catalog, "exp").ValueOrDie();
  ReadOptions options;
  options.columns = {"id", "nothing"};
  const auto stream = table->Scan(options);
  EXPECT_TRUE(Is(stream.status(), ErrorKind::kInvalid));
  EXPECT_NE(stream.status().message().find("nothing"), std::string::npos);
}

TEST_F(CatalogTest, AShutdownNamesTheStoresWhoseRowsAreOnlyInTheLog) {
  const auto catalog = OpenCatalog();
  ASSERT_TRUE(Append(**CreateNow(*catalog, "whole"), {{"a", 1}}).ok());
  ASSERT_TRUE(Append(**CreateNow(*catalog, "broken"), {{"a", 1}}).ok());
  store_.AddRule({.operation = object_store::StoreOperation::kCreate,
                  .name_glob = "broken*_gen_*",
                  .status = MakeError(ErrorKind::kIo, "EIO")});
  const Status closed = catalog->Close(kWait);
  EXPECT_TRUE(Is(closed, ErrorKind::kFailedWriter)) << closed;
  EXPECT_NE(closed.message().find("broken"), std::string::npos) << closed;
  EXPECT_EQ(closed.message().find("whole"), std::string::npos) << closed;
}

// Rows that other software deleted in the shard: the tombstone is in a generation, or only in the
// log.
TEST_F(CatalogTest, ATombstoneHidesItsRowAndItselfInEveryTier) {
  ASSERT_TRUE(CreateNow(*OpenCatalog(), "exp").ok());
  const auto tombstone = [](const std::string& key) {
    const auto live = memwal::testing::StorageBatch({{key, 0}});
    arrow::BooleanBuilder deleted;
    SARISSA_CHECK(deleted.Append(true).ok(), "out of memory");
    const int column = live->num_columns() - 1;
    return live->SetColumn(column, live->schema()->field(column), deleted.Finish().ValueOrDie())
        .ValueOrDie();
  };
  memwal::ShardOptions options;
  options.store = &store_;
  options.env = &posix_.env();
  options.table = "exp.rollout.lance";
  options.shard = ShardId::FromName("default");
  options.storage_schema = memwal::testing::KeyedStorage();
  {
    const auto writer = memwal::ShardWriter::Open(options).ValueOrDie();
    const auto append = [&](const std::shared_ptr<arrow::RecordBatch>& batch) {
      return writer->Append({batch}, {}).Wait(kWait).status();
    };
    const auto seal = [&] {
      return writer->Seal().Wait(*posix_.env().storage).Wait(kWait).status();
    };
    ASSERT_TRUE(append(memwal::testing::StorageBatch({{"a", 1}, {"b", 2}, {"c", 3}})).ok());
    ASSERT_TRUE(seal().ok());
    ASSERT_TRUE(append(tombstone("a")).ok());
    ASSERT_TRUE(seal().ok());
    ASSERT_TRUE(append(tombstone("b")).ok());
  }
  const auto catalog = OpenCatalog();
  const auto table = FindNow(*catalog, "exp").ValueOrDie();
  EXPECT_EQ(Read(*table), (KeyedRows{{"c", 3}}));
  for (const char* deleted : {"a", "b"})
    EXPECT_EQ(table->Get(deleted, std::nullopt).ValueOrDie(), nullptr) << deleted;
  EXPECT_NE(table->Get("c", std::nullopt).ValueOrDie(), nullptr);
}

// The sweeper, in virtual time.
class Sweep : public ::testing::Test {
 protected:
  std::shared_ptr<Catalog> Start(env::Duration flush_interval, int64_t memory_limit) {
    process_ = std::make_unique<env::SimEnv>(scheduler_, disk_,
                                             env::SimEnv::Options{.memory_limit = memory_limit});
    CatalogOptions options;
    options.schema = KeyedBase();
    options.flush_interval = flush_interval;
    return Catalog::Open(memory_, process_->env(), options).ValueOrDie();
  }
  void CreateAndAppend(Catalog& catalog, const std::string& name, const KeyedRows& rows) {
    const auto created = catalog.Create(name);
    scheduler_.RunUntil([&] { return created.IsReady(); });
    ASSERT_TRUE(created.IsReady() && created.Get().ok());
    const auto answer = (*created.Get())->Append({UserBatch(rows)}, {});
    scheduler_.RunUntil([&] { return answer.IsReady(); });
    ASSERT_TRUE(answer.IsReady() && answer.Get().ok());
  }
  int Generations(const std::string& name) {
    const memwal::ShardManifestStore manifests(memory_, name + ".rollout.lance",
                                               ShardId::FromName("default"));
    return manifests.ReadNewest().ValueOrDie()->sstables_size();
  }

  env::SimScheduler scheduler_{1};
  env::SimDisk disk_;
  object_store::MemoryStore memory_;
  std::unique_ptr<env::SimEnv> process_;
};

TEST_F(Sweep, RowsReachAGenerationWhenTheyAreOldEnough) {
  const auto catalog = Start(std::chrono::seconds(30), 0);
  CreateAndAppend(*catalog, "exp", {{"a", 1}});
  scheduler_.RunFor(std::chrono::seconds(25));
  EXPECT_EQ(Generations("exp"), 0);
  scheduler_.RunFor(std::chrono::seconds(10));
  EXPECT_EQ(Generations("exp"), 1);
  process_->Kill();
}

TEST_F(Sweep, PressureSealsTheLargestIdleStoreAndSparesTheSmall) {
  constexpr int64_t kRows = 20'000;
  // The index of the large store alone is nearly four fifths.
  const auto catalog = Start({}, kRows * memwal::kIndexBytesPerRow / 4 * 5);
  CreateAndAppend(*catalog, "small", {{"a", 1}});
  scheduler_.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Generations("small"), 0) << "no pressure yet";
  KeyedRows rows;
  for (int64_t i = 0; i < kRows; ++i) rows.emplace_back(fmt::format("k{}", i), i);
  CreateAndAppend(*catalog, "large", rows);
  scheduler_.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Generations("large"), 1);
  EXPECT_EQ(Generations("small"), 0);
  process_->Kill();
}

}  // namespace
}  // namespace sarissa::engine
