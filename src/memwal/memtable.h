// The memtable: the rows of one generation that are in the log and in no generation yet, in arrival
// order.
//
// Invariants
//  1. Only durable rows enter (the log object landed and the epoch was re-read), so what is here is
//  what may be shown (P2, P4).
//  2. One inserter at a time (the shard's log task); any number of readers. A reader holds a
//  MemtableView: the batches at the
//     moment it was taken, forever unchanged, with newest-wins answered inside that prefix.
//  3. Physical order is arrival order (S13). A key that comes again supersedes its older row and
//  sits at the end.
//
// The key index maps a key's bytes (borrowed from the batch) to its newest row; older rows of a key
// form a chain, so that a view that was taken earlier finds the row that was newest then.
#pragma once

#include <arrow/record_batch.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/strong_type.h"
#include "env/clock.h"
#include "env/memory_budget.h"

namespace sarissa::memwal {

inline constexpr uint32_t kNoRow = UINT32_MAX;

// Where the rows of one batch came from in the log.
struct LogSpan {
  LogPosition position;
  uint32_t first_row_in_entry = 0;
};

// One inserted batch. Immutable but for `superseded_by`.
struct MemtableBatch {
  std::shared_ptr<arrow::RecordBatch> batch;  // storage schema
  uint32_t first_row = 0;                     // within the memtable
  LogSpan log;
  // Per row: the memtable row that replaced it, kNoRow while it is the newest. Written by the
  // inserter (release), read by views (acquire): a value at or past the view's end means "not
  // replaced yet" for that view.
  std::unique_ptr<std::atomic<uint32_t>[]> superseded_by;
  // Per row: the previous row of the same key, or kNoRow. Set before the batch is published.
  std::vector<uint32_t> previous;
};

struct RowPosition {
  const MemtableBatch* batch = nullptr;
  int64_t row = 0;  // within the batch
};

class Memtable;

// A memtable as of one moment. Thread safe, immutable; keeps the memtable alive.
class MemtableView {
 public:
  MemtableView(std::shared_ptr<const Memtable> memtable,
               std::vector<std::shared_ptr<const MemtableBatch>> batches, uint32_t rows)
      : memtable_(std::move(memtable)), batches_(std::move(batches)), rows_(rows) {}

  Generation generation() const;
  uint32_t rows() const { return rows_; }
  const std::vector<std::shared_ptr<const MemtableBatch>>& batches() const { return batches_; }
  // True if row `row` of `batch` has a newer row of its key within this view.
  bool Superseded(const MemtableBatch& batch, int64_t row) const {
    return batch.superseded_by[static_cast<size_t>(row)].load(std::memory_order_acquire) < rows_;
  }
  // The newest row of `key` within this view.
  std::optional<RowPosition> Find(std::string_view key) const;

 private:
  RowPosition Locate(uint32_t row) const;

  std::shared_ptr<const Memtable> memtable_;
  std::vector<std::shared_ptr<const MemtableBatch>> batches_;
  uint32_t rows_;
};

class Memtable : public std::enable_shared_from_this<Memtable> {
 public:
  // `key_column` is the index of the primary key (utf8 or large_utf8) in the storage schema.
  Memtable(Generation generation, int key_column)
      : generation_(generation), key_column_(key_column) {}

  // Appends batches of one log entry; `charge` is kept until the memtable dies,
  // as memtables'.
  void Insert(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, LogPosition position,
              uint32_t first_row_in_entry, env::Reservation charge, env::MonotonicTime now);

  MemtableView View() const;

  Generation generation() const { return generation_; }
  uint32_t rows() const;
  int64_t bytes() const;
  // Time of the first insert; nothing while empty.
  std::optional<env::MonotonicTime> first_insert() const;
  LogPosition last_position() const;

 private:
  friend class MemtableView;
  std::optional<uint32_t> NewestRow(std::string_view key) const;

  const Generation generation_;
  const int key_column_;

  // Leaf lock: nothing is called and no I/O is done while it is held.
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const MemtableBatch>> batches_;
  std::unordered_map<std::string_view, uint32_t> newest_;
  uint32_t rows_ = 0;
  int64_t bytes_ = 0;
  LogPosition last_position_;
  std::optional<env::MonotonicTime> first_insert_;
  env::Reservation charge_;
};

// What the key index, the chains and the batch records cost per row, about.
inline constexpr int64_t kIndexBytesPerRow = 72;

// Bytes of memory that `batch` pins: each heap buffer once by its real size, mapped ranges not at
// all (S12).
int64_t PinnedBytes(const arrow::RecordBatch& batch);

}  // namespace sarissa::memwal
