#include "memwal/memtable.h"

#include <arrow/array.h>
#include <arrow/type.h>

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "env/mapped_range.h"
#include "memwal/key_column.h"

namespace sarissa::memwal {
namespace {

const arrow::Buffer& Root(const arrow::Buffer& buffer) {
  const arrow::Buffer* root = &buffer;
  while (root->parent() != nullptr) root = root->parent().get();
  return *root;
}

void AddPinned(const arrow::ArrayData& data, std::unordered_set<const arrow::Buffer*>& seen,
               int64_t& bytes) {
  for (const auto& buffer : data.buffers) {
    if (buffer == nullptr || env::IsMapped(*buffer)) continue;
    const arrow::Buffer& root = Root(*buffer);
    if (seen.insert(&root).second) bytes += std::max(root.size(), root.capacity());
  }
  for (const auto& child : data.child_data) AddPinned(*child, seen, bytes);
  if (data.dictionary != nullptr) AddPinned(*data.dictionary, seen, bytes);
}

}  // namespace

int64_t PinnedBytes(const arrow::RecordBatch& batch) {
  std::unordered_set<const arrow::Buffer*> seen;
  int64_t bytes = 0;
  for (const auto& column : batch.column_data()) AddPinned(*column, seen, bytes);
  return bytes;
}

Generation MemtableView::generation() const {
  return memtable_->generation();
}

RowPosition MemtableView::Locate(uint32_t row) const {
  const auto after = std::upper_bound(
      batches_.begin(), batches_.end(), row,
      [](uint32_t wanted, const auto& batch) { return wanted < batch->first_row; });
  SARISSA_CHECK(after != batches_.begin(), "row {} is before the first batch", row);
  const auto& batch = *std::prev(after);
  return {batch.get(), static_cast<int64_t>(row - batch->first_row)};
}

std::optional<RowPosition> MemtableView::Find(std::string_view key) const {
  std::optional<uint32_t> row = memtable_->NewestRow(key);
  if (!row) return std::nullopt;
  // Rows that came after this view was taken: walk back to the one that was newest then.
  if (*row >= rows_) {
    const MemtableView now = memtable_->View();
    while (*row >= rows_) {
      const RowPosition position = now.Locate(*row);
      const uint32_t previous = position.batch->previous[static_cast<size_t>(position.row)];
      if (previous == kNoRow) return std::nullopt;
      row = previous;
    }
  }
  return Locate(*row);
}

void Memtable::Insert(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                      LogPosition position, uint32_t first_row_in_entry, env::Reservation charge,
                      env::MonotonicTime now) {
  charge.Relabel(env::MemoryUse::kMemtables);
  const std::scoped_lock lock(mutex_);
  charge_.Merge(std::move(charge));
  if (!first_insert_) first_insert_ = now;
  last_position_ = position;
  for (const auto& batch : batches) {
    const auto rows = static_cast<uint32_t>(batch->num_rows());
    if (rows == 0) continue;
    auto inserted = std::make_shared<MemtableBatch>();
    inserted->batch = batch;
    inserted->first_row = rows_;
    inserted->log = {position, first_row_in_entry};
    inserted->superseded_by = std::make_unique<std::atomic<uint32_t>[]>(rows);
    inserted->previous.assign(rows, kNoRow);
    const arrow::Array& keys = *batch->column(key_column_);
    newest_.reserve(newest_.size() + rows);
    for (uint32_t row = 0; row < rows; ++row) {
      inserted->superseded_by[row].store(kNoRow, std::memory_order_relaxed);
      const auto [entry, fresh] = newest_.try_emplace(KeyBytes(keys, row), rows_ + row);
      if (fresh) continue;
      const uint32_t older = entry->second;
      inserted->previous[row] = older;
      entry->second = rows_ + row;
      if (older >= rows_) {
        inserted->superseded_by[older - rows_].store(rows_ + row, std::memory_order_release);
        continue;
      }
      const auto after = std::upper_bound(
          batches_.begin(), batches_.end(), older,
          [](uint32_t wanted, const auto& held) { return wanted < held->first_row; });
      const auto& holder = *std::prev(after);
      holder->superseded_by[older - holder->first_row].store(rows_ + row,
                                                             std::memory_order_release);
    }
    first_row_in_entry += rows;
    rows_ += rows;
    bytes_ += PinnedBytes(*batch) + rows * kIndexBytesPerRow;
    batches_.push_back(std::move(inserted));
  }
}

MemtableView Memtable::View() const {
  const std::scoped_lock lock(mutex_);
  return MemtableView(shared_from_this(), batches_, rows_);
}

std::optional<uint32_t> Memtable::NewestRow(std::string_view key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = newest_.find(key);
  if (found == newest_.end()) return std::nullopt;
  return found->second;
}

uint32_t Memtable::rows() const {
  const std::scoped_lock lock(mutex_);
  return rows_;
}

int64_t Memtable::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

std::optional<env::MonotonicTime> Memtable::first_insert() const {
  const std::scoped_lock lock(mutex_);
  return first_insert_;
}

LogPosition Memtable::last_position() const {
  const std::scoped_lock lock(mutex_);
  return last_position_;
}

}  // namespace sarissa::memwal
