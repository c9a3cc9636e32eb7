// The machine's files. See env/file_system.h for the contract.
//
// A file has no name until it is linked (O_TMPFILE and linkat); file systems without O_TMPFILE get
// a name that starts with
// ".tmp." which is linked to the final name and then removed. Concurrent syncs of one directory are
// shared. List names regular files and directories only; symbolic links and special files are left
// out.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "env/file_system.h"
#include "env/posix/posix_random.h"
#include "env/posix/shared_sync.h"

namespace sarissa::env {

enum class SyncMode {
  kAlways,
  kNone,  // Sync and SyncDirectory do nothing: for scratch data that may be lost with the machine
};

class PosixFileSystem final : public FileSystem {
 public:
  struct Options {
    SyncMode sync_mode = SyncMode::kAlways;
    // False: use the fallback for file systems without O_TMPFILE from the start.
    bool unnamed_files = true;
  };

  PosixFileSystem();
  explicit PosixFileSystem(Options options);

  Result<std::unique_ptr<WritableFile>> CreateUnnamed(const std::string& directory) override;
  Result<std::shared_ptr<ReadableFile>> OpenRead(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;
  Result<std::vector<FileInfo>> List(const std::string& directory) override;
  Status CreateDirectory(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status RemoveFile(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  Result<std::shared_ptr<void>> LockFile(const std::string& path) override;

 private:
  Result<std::unique_ptr<WritableFile>> CreateTemporary(const std::string& directory);

  const Options options_;
  PosixRandom random_;
  SharedSync directory_syncs_;
};

}  // namespace sarissa::env
