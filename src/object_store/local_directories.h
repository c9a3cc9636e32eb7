// The directories of a LocalStore: makes them, and remembers which ones exist and have a durable
// entry in their parent.
//
// A directory that this store did not make is synced into its parent once, before the first write
// relies on it: whoever made it may have died before the sync. What is remembered is bounded;
// forgetting costs one more sync. Thread safe; the mutex is a leaf and not held across file system
// calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "env/file_system.h"

namespace sarissa::object_store {

// The part of `path` before its last '/': "." and "/" where nothing is left.
std::string ParentDirectory(std::string_view path);

class LocalDirectories {
 public:
  LocalDirectories(env::FileSystem& file_system, std::string root);

  // Makes the root and what is missing above it. For the time before the store is used.
  Status MakeRoot();
  // Returns when `directory` (the root or below it) exists and its entry, and those of all
  // directories between it and the root, are durable.
  Status Make(const std::string& directory);
  // Makes the entries of `directory` durable. One that failed to sync once is refused from then on
  // (kIo): the kernel drops what it could not write and reports it once, so that a later success
  // says nothing about it.
  Status Sync(const std::string& directory);
  // kIo if `directory` is one that failed: nothing new should become visible in it.
  Status CheckSynced(const std::string& directory);
  // `directory` turned out to be missing: it and those above it are looked at again.
  void ForgetAbove(const std::string& directory);
  // `directory` and all below it are deleted.
  void ForgetBelow(const std::string& directory);

 private:
  bool Knows(const std::string& directory);
  uint64_t forgets();
  void Remember(const std::string& directory, uint64_t forgets_before);
  Status MakeMissing(const std::string& directory);

  env::FileSystem& file_system_;
  const std::string root_;
  std::mutex mutex_;
  // Two halves of a cache: a full `recent_` becomes `older_`.
  std::unordered_set<std::string> recent_;
  std::unordered_set<std::string> older_;
  std::unordered_set<std::string> failed_;
  // Counts what was forgotten: knowledge gained while something was being forgotten is not kept.
  uint64_t forgets_ = 0;
};

}  // namespace sarissa::object_store
