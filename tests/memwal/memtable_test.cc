#include "memwal/memtable.h"

#include <gtest/gtest.h>

#include "env/memory_budget.h"
#include "env/sim/sim_random.h"
#include "tests/counts.h"
#include "tests/memwal/rows.h"

namespace sarissa::memwal {
namespace {

using testing::KeyedRows;
using testing::StorageBatch;
using testing::Visible;

std::shared_ptr<Memtable> NewMemtable() {
  return std::make_shared<Memtable>(Generation(1), 0);
}

void Insert(Memtable& memtable, const std::vector<KeyedRows>& batches, uint64_t position) {
  std::vector<std::shared_ptr<arrow::RecordBatch>> made;
  for (const auto& rows : batches) made.push_back(StorageBatch(rows));
  memtable.Insert(made, LogPosition(position), 0, {}, env::MonotonicTime{});
}

TEST(Memtable, TheNewestRowOfAKeyWinsWithinABatchAndAcrossBatches) {
  const auto memtable = NewMemtable();
  Insert(*memtable, {{{"a", 1}, {"a", 2}, {"b", 3}}}, 1);
  Insert(*memtable, {{{"b", 4}}, {{"b", 5}, {"c", 6}}}, 2);
  const std::map<std::string, int64_t> expected = {{"a", 2}, {"b", 5}, {"c", 6}};
  EXPECT_EQ(Visible(memtable->View()), expected);
  EXPECT_EQ(memtable->rows(), 6u);
  EXPECT_EQ(memtable->last_position(), LogPosition(2));
}

TEST(Memtable, AViewNeverChanges) {
  const auto memtable = NewMemtable();
  Insert(*memtable, {{{"a", 1}, {"b", 2}}}, 1);
  const MemtableView before = memtable->View();
  Insert(*memtable, {{{"a", 7}, {"c", 8}}}, 2);
  const std::map<std::string, int64_t> expected = {{"a", 1}, {"b", 2}};
  EXPECT_EQ(Visible(before), expected);
  EXPECT_FALSE(before.Find("c"));
  const auto found = before.Find("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(
      static_cast<const arrow::Int64Array&>(*found->batch->batch->column(1)).Value(found->row), 1);
}

// Random histories against a map, with views taken at random moments and checked at the end.
TEST(Memtable, AgreesWithAModelAtEveryMoment) {
  const uint64_t seed = tests::SeedFor("Memtable.AgreesWithAModelAtEveryMoment");
  SCOPED_TRACE(fmt::format("seed {}", seed));
  env::SimRandom random(seed);
  for (int history = 0; history < tests::kMemtableHistories; ++history) {
    const auto memtable = NewMemtable();
    std::map<std::string, int64_t> model;
    std::vector<std::pair<MemtableView, std::map<std::string, int64_t>>> moments;
    int64_t value = 0;
    for (uint64_t step = 0; step < 12; ++step) {
      std::vector<KeyedRows> batches(1 + random.Below(3));
      for (auto& rows : batches) {
        const uint64_t count = 1 + random.Below(6);
        for (uint64_t i = 0; i < count; ++i) {
          rows.emplace_back(fmt::format("k{}", random.Below(9)), ++value);
          model[rows.back().first] = value;
        }
      }
      Insert(*memtable, batches, step + 1);
      if (random.Below(2) == 0) moments.emplace_back(memtable->View(), model);
    }
    for (const auto& [view, expected] : moments) {
      ASSERT_EQ(Visible(view), expected);
      for (uint64_t k = 0; k < 9; ++k) {
        const std::string key = fmt::format("k{}", k);
        const auto found = view.Find(key);
        ASSERT_EQ(found.has_value(), expected.contains(key));
        if (!found) continue;
        const auto& values = static_cast<const arrow::Int64Array&>(*found->batch->batch->column(1));
        ASSERT_EQ(values.Value(found->row), expected.at(key));
      }
    }
  }
}

TEST(Memtable, KeepsItsChargeUntilItDies) {
  env::MemoryBudget budget(1 << 20);
  auto memtable = NewMemtable();
  memtable->Insert({StorageBatch({{"a", 1}})}, LogPosition(1), 0, *budget.Reserve(1000, "test"),
                   env::MonotonicTime{});
  EXPECT_EQ(budget.used(), 1000);
  const MemtableView view = memtable->View();
  memtable.reset();
  EXPECT_EQ(budget.used(), 1000) << "a view keeps the rows, so it keeps the charge";
}

TEST(PinnedBytes, CountsASharedBufferOnceAndSlicesByWhatTheyHold) {
  const auto batch = StorageBatch({{"a", 1}, {"b", 2}, {"c", 3}});
  const int64_t whole = PinnedBytes(*batch);
  EXPECT_GT(whole, 0);
  EXPECT_EQ(PinnedBytes(*batch->Slice(0, 1)), whole);
}

TEST(Memtable, CountsItsIndexBesideItsRows) {
  const auto memtable = NewMemtable();
  const auto batch = StorageBatch({{"a", 1}, {"b", 2}, {"a", 3}});
  memtable->Insert({batch}, LogPosition(1), 0, {}, env::MonotonicTime{});
  EXPECT_EQ(memtable->bytes(), PinnedBytes(*batch) + 3 * kIndexBytesPerRow);
}

}  // namespace
}  // namespace sarissa::memwal
