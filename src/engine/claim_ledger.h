// What this process knows of the claims it made, by table path: survives the table's handle.
//
// A writer that was fenced stays fenced for the life of the process, also when its handle is
// evicted and opened again: taking the shard back would fence the new owner, and the two would
// alternate for ever. A writer that was closed cleanly goes on under its old epoch. Thread safe.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/strong_type.h"

namespace sarissa::engine {

class ClaimLedger {
 public:
  struct Entry {
    std::optional<Epoch> closed_cleanly;  // the epoch that may go on
    Status fenced;                        // not OK: never claim again
  };

  void ClosedCleanly(const std::string& path, Epoch epoch) {
    const std::scoped_lock lock(mutex_);
    entries_[path].closed_cleanly = epoch;
  }
  // Called when a claim is made, and when a table is deleted (its path may be used again).
  void Forget(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    entries_.erase(path);
  }
  void Fenced(const std::string& path, const Status& cause) {
    const std::scoped_lock lock(mutex_);
    entries_[path] = {std::nullopt, cause};
  }
  Entry Recall(const std::string& path) const {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(path);
    return found == entries_.end() ? Entry() : found->second;
  }

 private:
  mutable std::mutex mutex_;  // leaf
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace sarissa::engine
