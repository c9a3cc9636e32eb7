#include "env/posix/posix_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/sync_point.h"
#include "env/posix/file_descriptor.h"
#include "env/posix/posix_file.h"

namespace sarissa::env {
namespace {

constexpr mode_t kFileMode = 0644;
constexpr mode_t kDirectoryMode = 0755;

FileDescriptor OpenFile(const std::string& path, int flags) {
  return FileDescriptor(
      RetryOnSignal([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kFileMode); }));
}

FileInfo InfoOf(std::string name, const struct stat& status) {
  FileInfo info;
  info.name = std::move(name);
  info.is_directory = S_ISDIR(status.st_mode);
  info.size = info.is_directory ? 0 : static_cast<uint64_t>(status.st_size);
  return info;
}

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

bool IsUnsupportedUnnamed(int code) {
  // Kernels without O_TMPFILE see an attempt to write to a directory.
  return code == EOPNOTSUPP || code == EISDIR || code == EINVAL;
}

}  // namespace

PosixFileSystem::PosixFileSystem() : PosixFileSystem(Options()) {}

PosixFileSystem::PosixFileSystem(Options options) : options_(options) {}

Result<std::unique_ptr<WritableFile>> PosixFileSystem::CreateUnnamed(const std::string& directory) {
  if (!options_.unnamed_files) return CreateTemporary(directory);
  FileDescriptor file = OpenFile(directory, O_TMPFILE | O_RDWR);
  if (!file.valid()) {
    if (IsUnsupportedUnnamed(errno)) return CreateTemporary(directory);
    return ErrnoError(errno, "create a file in", directory);
  }
  return std::make_unique<PosixWritableFile>(
      std::move(file),
      PosixWritableFile::Origin{directory, "", options_.sync_mode == SyncMode::kAlways});
}

Result<std::unique_ptr<WritableFile>> PosixFileSystem::CreateTemporary(
    const std::string& directory) {
  const uint64_t high = random_.Next();
  std::string path = fmt::format("{}/.tmp.{:016x}{:016x}", directory, high, random_.Next());
  FileDescriptor file = OpenFile(path, O_CREAT | O_EXCL | O_RDWR);
  if (!file.valid()) return ErrnoError(errno, "create a file in", directory);
  return std::make_unique<PosixWritableFile>(
      std::move(file), PosixWritableFile::Origin{directory, std::move(path),
                                                 options_.sync_mode == SyncMode::kAlways});
}

Result<std::shared_ptr<ReadableFile>> PosixFileSystem::OpenRead(const std::string& path) {
  // Without O_NONBLOCK the open of a pipe would wait for its other end.
  FileDescriptor file = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!file.valid()) return ErrnoError(errno, "open", path);
  struct stat status;
  if (::fstat(file.get(), &status) != 0) return ErrnoError(errno, "stat", path);
  if (!S_ISREG(status.st_mode))
    return Error(ErrorKind::kNotFound, "open '{}': not a regular file", path);
  return std::make_shared<PosixReadableFile>(std::move(file), static_cast<uint64_t>(status.st_size),
                                             path);
}

Result<FileInfo> PosixFileSystem::Stat(const std::string& path) {
  struct stat status;
  if (::stat(path.c_str(), &status) != 0) return ErrnoError(errno, "stat", path);
  const size_t slash = path.find_last_of('/');
  return InfoOf(slash == std::string::npos ? path : path.substr(slash + 1), status);
}

Result<std::vector<FileInfo>> PosixFileSystem::List(const std::string& directory) {
  const std::unique_ptr<DIR, DirectoryCloser> stream(::opendir(directory.c_str()));
  if (stream == nullptr) return ErrnoError(errno, "list", directory);
  const int fd = ::dirfd(stream.get());
  std::vector<FileInfo> entries;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoError(errno, "list", directory);
      return entries;
    }
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    if (entry->d_type == DT_DIR) {
      entries.push_back({.name = entry->d_name, .is_directory = true, .size = 0});
      continue;
    }
    if (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN) continue;
    struct stat status;
    if (::fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // removed since readdir saw it
      return ErrnoError(errno, "stat", fmt::format("{}/{}", directory, entry->d_name));
    }
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) continue;
    entries.push_back(InfoOf(entry->d_name, status));
  }
}

Status PosixFileSystem::CreateDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), kDirectoryMode) != 0) return ErrnoError(errno, "make directory", path);
  return Status::OK();
}

Status PosixFileSystem::SyncDirectory(const std::string& path) {
  if (options_.sync_mode == SyncMode::kNone) return Status::OK();
  return directory_syncs_.Run(path, [&]() -> Status {
    SARISSA_SYNC_POINT("posix_file_system.sync_directory");
    const FileDescriptor directory = OpenFile(path, O_RDONLY | O_DIRECTORY);
    if (!directory.valid()) return ErrnoError(errno, "open directory", path);
    if (RetryOnSignal([&] { return ::fsync(directory.get()); }) != 0)
      return ErrnoError(errno, "sync directory", path);
    return Status::OK();
  });
}

Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    return ErrnoError(errno, "rename", fmt::format("{}' to '{}", from, to));
  }
  return Status::OK();
}

Status PosixFileSystem::RemoveFile(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return ErrnoError(errno, "remove", path);
  return Status::OK();
}

Status PosixFileSystem::RemoveDirectory(const std::string& path) {
  if (::rmdir(path.c_str()) == 0) return Status::OK();
  // POSIX lets rmdir say EEXIST for a directory that is not empty.
  return ErrnoError(errno == EEXIST ? ENOTEMPTY : errno, "remove directory", path);
}

Result<std::shared_ptr<void>> PosixFileSystem::LockFile(const std::string& path) {
  FileDescriptor file = OpenFile(path, O_CREAT | O_RDWR);
  if (!file.valid()) return ErrnoError(errno, "open", path);
  if (RetryOnSignal([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno == EWOULDBLOCK)
      return Error(ErrorKind::kAlreadyExists, "lock '{}': another process holds it", path);
    return ErrnoError(errno, "lock", path);
  }
  return std::make_shared<FileDescriptor>(std::move(file));
}

}  // namespace sarissa::env
