// The open data files and deletion vectors of a table, shared by its versions: both never change
// under their names.
//
// Bounded: the least recently used ones go first; users keep what they hold. Thread safe; the lock
// is not held across I/O, so two threads may open the same file at once and one of the two is
// dropped.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "lance/file/file_reader.h"
#include "lance/table/deletion_vector.h"

namespace sarissa::lance {

// Name -> value, at most `limit` of them. Leaf lock.
template <typename T>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(size_t limit) : limit_(limit) {}

  std::shared_ptr<T> Find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  void Insert(const std::string& name, std::shared_ptr<T> value) {
    const std::lock_guard lock(mutex_);
    if (by_name_.contains(name)) return;
    order_.emplace_front(name, std::move(value));
    by_name_[name] = order_.begin();
    if (order_.size() <= limit_) return;
    by_name_.erase(order_.back().first);
    order_.pop_back();
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<T>>;

  const size_t limit_;
  std::mutex mutex_;
  std::list<Entry> order_;  // most recent first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> by_name_;
};

class OpenFiles {
 public:
  // `store` outlives this.
  OpenFiles(object_store::ObjectStore& store, std::string table);

  // kCorrupt when the file's size is not what `file` says.
  Result<std::shared_ptr<FileReader>> Data(const pb::table::DataFile& file);
  Result<std::shared_ptr<const DeletionVector>> Deletions(const pb::table::DataFragment& fragment,
                                                          uint64_t physical_rows);

 private:
  object_store::ObjectStore& store_;
  const std::string table_;
  RecentlyUsed<FileReader> data_;
  RecentlyUsed<const DeletionVector> deletions_;
};

}  // namespace sarissa::lance
