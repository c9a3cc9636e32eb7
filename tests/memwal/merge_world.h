// A keyed table with a MemWAL for the tests of the merge: rows that carry tombstones, a model of
// what readers must see, and a reader that finds it out by itself.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memwal/mem_wal_index.h"
#include "memwal/merge.h"
#include "tests/memwal/shard_world.h"

namespace sarissa::memwal {

using testing::KeyedBase;

struct Change {
  std::string key;
  int64_t value = 0;
  bool tombstone = false;
};

inline Change Set(std::string key, int64_t value) {
  return {std::move(key), value, false};
}
inline Change Remove(std::string key) {
  return {std::move(key), 0, true};
}

inline std::shared_ptr<arrow::RecordBatch> ChangeBatch(const std::vector<Change>& changes) {
  arrow::StringBuilder ids;
  arrow::Int64Builder values;
  arrow::BooleanBuilder tombstones;
  for (const Change& change : changes) {
    SARISSA_CHECK(ids.Append(change.key).ok() && tombstones.Append(change.tombstone).ok() &&
                      (change.tombstone ? values.AppendNull() : values.Append(change.value)).ok(),
                  "out of memory");
  }
  return arrow::RecordBatch::Make(
      KeyedStorage().arrow_schema(), static_cast<int64_t>(changes.size()),
      {ids.Finish().ValueOrDie(), values.Finish().ValueOrDie(), tombstones.Finish().ValueOrDie()});
}

// What is visible after some changes, in list order: a key that comes again moves to the end.
class Model {
 public:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      std::erase_if(rows_, [&](const auto& row) { return row.first == change.key; });
      if (!change.tombstone) rows_.emplace_back(change.key, change.value);
    }
  }
  const KeyedRows& rows() const { return rows_; }

 private:
  KeyedRows rows_;
};

// The rows of a table without those that its deletion vectors mask, in physical order.
inline std::vector<Change> RowsOf(const lance::Table& table) {
  std::vector<Change> rows;
  auto stream = table.Scan({}).ValueOrDie();
  while (const auto batch = stream->Next().ValueOrDie()) {
    const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(0));
    const auto& values = static_cast<const arrow::Int64Array&>(*batch->column(1));
    const auto* tombstones = batch->num_columns() > 2
                                 ? static_cast<const arrow::BooleanArray*>(batch->column(2).get())
                                 : nullptr;
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      rows.push_back(
          {ids.GetString(row), values.Value(row), tombstones != nullptr && tombstones->Value(row)});
    }
  }
  return rows;
}

inline std::vector<Change> RowsOf(const MemtableView& memtable) {
  std::vector<Change> rows;
  for (const auto& held : memtable.batches()) {
    const auto& ids = static_cast<const arrow::StringArray&>(*held->batch->column(0));
    const auto& values = static_cast<const arrow::Int64Array&>(*held->batch->column(1));
    const auto& tombstones = static_cast<const arrow::BooleanArray&>(*held->batch->column(2));
    for (int64_t row = 0; row < held->batch->num_rows(); ++row) {
      if (memtable.Superseded(*held, row)) continue;
      rows.push_back({ids.GetString(row), values.Value(row), tombstones.Value(row)});
    }
  }
  return rows;
}

// One key once, from the last source that has it; deleted keys not at all.
inline KeyedRows NewestWins(const std::vector<std::vector<Change>>& sources) {
  std::map<std::string, size_t> newest;
  for (size_t source = 0; source < sources.size(); ++source) {
    for (const Change& row : sources[source]) newest[row.key] = source;
  }
  KeyedRows rows;
  std::set<std::string> seen;
  for (size_t source = 0; source < sources.size(); ++source) {
    for (const Change& row : sources[source]) {
      if (newest[row.key] != source) continue;
      EXPECT_TRUE(seen.insert(row.key).second) << row.key << " is there twice";
      if (!row.tombstone) rows.emplace_back(row.key, row.value);
    }
  }
  return rows;
}

// Every object of `from`.
inline std::unique_ptr<object_store::MemoryStore> CopyOf(object_store::ObjectStore& from) {
  auto copy = std::make_unique<object_store::MemoryStore>();
  for (const auto& object : from.List("", {.recursive = true}).ValueOrDie().objects) {
    const auto bytes = from.Get(object.name).ValueOrDie();
    const Status put = copy->Put(object.name, {bytes->data(), static_cast<size_t>(bytes->size())},
                                 object_store::PutMode::kIfAbsent);
    SARISSA_CHECK(put.ok(), "{}", put.ToString());
  }
  return copy;
}

class MergeWorld : public ShardWorld {
 protected:
  MergeWorld() {
    const auto table =
        lance::Table::Create({&memory_, &posix_.env()}, "t", KeyedBase(), {}).ValueOrDie();
    SARISSA_CHECK(InitializeMemWal(table, posix_.env()).ok(), "the MemWAL entry");
  }

  static Status Write(ShardWriter& writer, const std::vector<Change>& changes) {
    return writer.Append({ChangeBatch(changes)}, {}).Wait(kWait).status();
  }
  // One generation of `changes`.
  void Flush(ShardWriter& writer, const std::vector<Change>& changes) {
    ASSERT_TRUE(Write(writer, changes).ok());
    const auto flushed = SealAndWait(writer);
    ASSERT_TRUE(flushed.ok()) << flushed.status();
  }

  MergeOptions Merging(object_store::ObjectStore& store) {
    MergeOptions options;
    options.store = &store;
    options.env = &posix_.env();
    options.table = "t";
    options.shard = shard_;
    return options;
  }
  MergeReport Merge(const MergeOptions& options) {
    MergeReport report;
    const Status merged = MergeGenerations(options, report);
    EXPECT_TRUE(merged.ok()) << merged;
    return report;
  }
  MergeReport Merge() { return Merge(Merging(store_)); }

  std::shared_ptr<lance::Table> Base(object_store::ObjectStore& store) {
    return lance::Table::Open({&store, &posix_.env()}, "t").ValueOrDie();
  }
  std::shared_ptr<lance::Table> Base() { return Base(memory_); }
  KeyedRows BaseRows() { return NewestWins({RowsOf(*Base())}); }

  // What a reader sees who takes generations and memtables from `view`, the base after them, and
  // leaves out what the base says is merged.
  KeyedRows Read(object_store::ObjectStore& store, const ShardView& view) {
    const auto base = Base(store);
    const auto merged = MergedGenerations(*base).ValueOrDie();
    const auto watermark = merged.find(shard_);
    std::vector<std::vector<Change>> sources = {RowsOf(*base)};
    for (const auto& generation : view.generations) {
      if (watermark != merged.end() && Generation(generation.generation()) <= watermark->second)
        continue;
      const std::string folder = ShardPrefix("t", shard_) + generation.path();
      sources.push_back(RowsOf(*lance::Table::Open({&store, &posix_.env()}, folder).ValueOrDie()));
    }
    for (const auto& memtable : view.memtables) sources.push_back(RowsOf(memtable));
    return NewestWins(sources);
  }
  KeyedRows Read(ShardWriter& writer) { return Read(memory_, writer.View()); }
  // The same for a reader of the stored state only.
  KeyedRows ReadStored(object_store::ObjectStore& store) {
    const auto manifest = ShardManifestStore(store, "t", shard_).ReadNewest().ValueOrDie();
    ShardView view;
    if (manifest) view.generations.assign(manifest->sstables().begin(), manifest->sstables().end());
    return Read(store, view);
  }

  uint64_t Objects(const std::string& prefix) {
    return memory_.List(prefix, {.recursive = true}).ValueOrDie().objects.size();
  }
};

}  // namespace sarissa::memwal
