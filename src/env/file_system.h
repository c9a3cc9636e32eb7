// Files and directories as a storage engine needs them: positional reads, files that appear whole
// or not at all, explicit syncs of files and of directories. Two sides: posix/ (the machine) and
// sim/ (seeded, faulty, remembers what was synced).
//
// Thread safe; a single WritableFile is used by one thread at a time. Paths are absolute or
// relative to the process. Errors: kNotFound, kAlreadyExists, kNoSpace (ENOSPC, EDQUOT),
// kUnavailable (EMFILE, ENFILE), kIo otherwise; the message names the path and what was tried.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sarissa::env {

struct FileInfo {
  std::string name;  // within its directory
  bool is_directory = false;
  uint64_t size = 0;  // bytes; 0 for directories
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;
  // Exactly `length` bytes from `offset`; a range past the end is kInvalid, a short read is kIo.
  virtual Result<std::shared_ptr<arrow::Buffer>> ReadAt(uint64_t offset, uint64_t length) const = 0;
  // The same bytes as a mapping of the file: costs address space, not memory, until it is touched.
  // The buffer keeps the mapping alive and may outlive this object and the file's name. See
  // mapped_range.h for giving pages back.
  virtual Result<std::shared_ptr<arrow::Buffer>> Map(uint64_t offset, uint64_t length) const = 0;
};

class WritableFile {
 public:
  // A file that was not linked vanishes.
  virtual ~WritableFile() = default;
  virtual Status Append(std::span<const uint8_t> data) = 0;
  virtual uint64_t size() const = 0;
  // fdatasync. After a failure the file must be given up: a second call could claim success for
  // lost pages.
  virtual Status Sync() = 0;
  // Gives the file the name `path`, which must not exist (kAlreadyExists). Does not sync the
  // directory.
  virtual Status LinkAs(const std::string& path) = 0;
  // What has been appended so far, for reading (a spooled upload is read back while it has no
  // name).
  virtual Result<std::shared_ptr<ReadableFile>> OpenForRead() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // A nameless file in `directory` (O_TMPFILE where the file system has it).
  virtual Result<std::unique_ptr<WritableFile>> CreateUnnamed(const std::string& directory) = 0;
  virtual Result<std::shared_ptr<ReadableFile>> OpenRead(const std::string& path) = 0;
  virtual Result<FileInfo> Stat(const std::string& path) = 0;
  // Entries in no particular order, without "." and "..".
  virtual Result<std::vector<FileInfo>> List(const std::string& directory) = 0;
  // Makes one directory; its parent must exist. kAlreadyExists if something has that name.
  virtual Status CreateDirectory(const std::string& path) = 0;
  virtual Status SyncDirectory(const std::string& path) = 0;
  // Atomic; replaces `to`.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status RemoveFile(const std::string& path) = 0;
  // The directory must be empty.
  virtual Status RemoveDirectory(const std::string& path) = 0;
  // Takes an exclusive advisory lock on a file that is created if missing, held until the returned
  // object dies or the process does. kAlreadyExists when another process holds it.
  virtual Result<std::shared_ptr<void>> LockFile(const std::string& path) = 0;
};

}  // namespace sarissa::env
