// A file system whose syncs cost what a benchmark says: every successful sync of a file or of a
// directory is followed by a sleep on the calling thread, so that a disk with a cheap flush stands
// in for one with a dear flush. All else is the inner file system's.
//
// Thread safe as the inner one is. The inner file system outlives this one and its files.
#pragma once

#include <atomic>
#include <cstdint>

#include "env/clock.h"
#include "env/file_system.h"

namespace sarissa::bench {

class SlowSyncFileSystem final : public env::FileSystem {
 public:
  SlowSyncFileSystem(env::FileSystem& inner, env::Duration delay) : inner_(inner), delay_(delay) {}

  Result<std::unique_ptr<env::WritableFile>> CreateUnnamed(const std::string& directory) override;
  Result<std::shared_ptr<env::ReadableFile>> OpenRead(const std::string& path) override {
    return inner_.OpenRead(path);
  }
  Result<env::FileInfo> Stat(const std::string& path) override { return inner_.Stat(path); }
  Result<std::vector<env::FileInfo>> List(const std::string& directory) override {
    return inner_.List(directory);
  }
  Status CreateDirectory(const std::string& path) override { return inner_.CreateDirectory(path); }
  Status SyncDirectory(const std::string& path) override {
    return Delayed(inner_.SyncDirectory(path));
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return inner_.Rename(from, to);
  }
  Status RemoveFile(const std::string& path) override { return inner_.RemoveFile(path); }
  Status RemoveDirectory(const std::string& path) override { return inner_.RemoveDirectory(path); }
  Result<std::shared_ptr<void>> LockFile(const std::string& path) override {
    return inner_.LockFile(path);
  }

  // Of files and of directories.
  uint64_t syncs() const { return syncs_.load(); }

 private:
  friend class SlowSyncFile;

  // Counts a sync and sleeps if it succeeded.
  Status Delayed(Status synced);

  env::FileSystem& inner_;
  const env::Duration delay_;
  std::atomic<uint64_t> syncs_{0};
};

}  // namespace sarissa::bench
