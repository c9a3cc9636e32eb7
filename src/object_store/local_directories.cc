#include "object_store/local_directories.h"

#include <utility>

namespace sarissa::object_store {
namespace {

constexpr size_t kRememberedPerHalf = 32768;

}  // namespace

std::string ParentDirectory(std::string_view path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

LocalDirectories::LocalDirectories(env::FileSystem& file_system, std::string root)
    : file_system_(file_system), root_(std::move(root)) {}

Status LocalDirectories::MakeRoot() {
  return MakeMissing(root_);
}

Status LocalDirectories::MakeMissing(const std::string& directory) {
  const Result<env::FileInfo> info = file_system_.Stat(directory);
  if (info.ok()) {
    if (info->is_directory) return Status::OK();
    return Error(ErrorKind::kInvalid, "'{}' is not a directory", directory);
  }
  const std::string parent = ParentDirectory(directory);
  if (!Is(info.status(), ErrorKind::kNotFound) || parent == directory) return info.status();
  ARROW_RETURN_NOT_OK(MakeMissing(parent));
  const Status made = file_system_.CreateDirectory(directory);
  if (!made.ok() && !Is(made, ErrorKind::kAlreadyExists)) return made;
  return file_system_.SyncDirectory(parent);
}

Status LocalDirectories::Make(const std::string& directory) {
  if (Knows(directory)) return Status::OK();
  const uint64_t forgets_before = forgets();
  const std::string parent = ParentDirectory(directory);
  if (directory != root_) ARROW_RETURN_NOT_OK(Make(parent));
  const Status made = file_system_.CreateDirectory(directory);
  if (Is(made, ErrorKind::kNotFound)) ForgetAbove(parent);
  if (!made.ok() && !Is(made, ErrorKind::kAlreadyExists)) return made;
  ARROW_RETURN_NOT_OK(Sync(parent));
  Remember(directory, forgets_before);
  return Status::OK();
}

Status LocalDirectories::CheckSynced(const std::string& directory) {
  const std::scoped_lock lock(mutex_);
  if (!failed_.contains(directory)) return Status::OK();
  return Error(ErrorKind::kIo, "'{}': a sync failed earlier; what it covered may be lost",
               directory);
}

Status LocalDirectories::Sync(const std::string& directory) {
  ARROW_RETURN_NOT_OK(CheckSynced(directory));
  Status synced = file_system_.SyncDirectory(directory);
  if (synced.ok() || Is(synced, ErrorKind::kNotFound)) return synced;
  const std::scoped_lock lock(mutex_);
  failed_.insert(directory);
  return synced;
}

void LocalDirectories::ForgetAbove(const std::string& directory) {
  const std::scoped_lock lock(mutex_);
  ++forgets_;
  for (std::string at = directory; at.size() >= root_.size(); at = ParentDirectory(at)) {
    recent_.erase(at);
    older_.erase(at);
    if (at == root_) return;
  }
}

void LocalDirectories::ForgetBelow(const std::string& directory) {
  const std::string below = directory + "/";
  const auto goes = [&](const std::string& known) {
    return known == directory || known.starts_with(below);
  };
  const std::scoped_lock lock(mutex_);
  ++forgets_;
  std::erase_if(recent_, goes);
  std::erase_if(older_, goes);
  std::erase_if(failed_, goes);
}

bool LocalDirectories::Knows(const std::string& directory) {
  const std::scoped_lock lock(mutex_);
  if (recent_.contains(directory)) return true;
  if (older_.erase(directory) == 0) return false;
  recent_.insert(directory);
  return true;
}

uint64_t LocalDirectories::forgets() {
  const std::scoped_lock lock(mutex_);
  return forgets_;
}

void LocalDirectories::Remember(const std::string& directory, uint64_t forgets_before) {
  const std::scoped_lock lock(mutex_);
  if (forgets_ != forgets_before) return;
  if (recent_.size() >= kRememberedPerHalf) {
    older_ = std::move(recent_);
    recent_.clear();
  }
  recent_.insert(directory);
}

}  // namespace sarissa::object_store
