#include "object_store/local_store.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/sync_point.h"
#include "env/mapped_range.h"
#include "object_store/local_directories.h"
#include "object_store/local_listing.h"

namespace sarissa::object_store {
namespace {

// Racing writers may fill a directory between its last file's removal and its own.
constexpr int kDeleteTreeAttempts = 3;

Status CheckWritableName(std::string_view name) {
  ARROW_RETURN_NOT_OK(CheckName(name));
  const bool temporary =
      name.starts_with(kTemporaryPrefix) || name.find("/.tmp.") != std::string_view::npos;
  if (temporary)
    return Error(ErrorKind::kInvalid, "the object name '{}' has a part that starts with '.tmp.'",
                 name);
  return Status::OK();
}

class LocalReader final : public ObjectReader {
 public:
  LocalReader(std::shared_ptr<env::ReadableFile> file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  uint64_t size() const override { return file_->size(); }
  const std::string& name() const override { return name_; }
  Result<std::shared_ptr<arrow::Buffer>> ReadRange(uint64_t offset,
                                                   uint64_t length) const override {
    if (length >= static_cast<uint64_t>(env::kMapThresholdBytes)) return file_->Map(offset, length);
    return file_->ReadAt(offset, length);
  }

 private:
  const std::shared_ptr<env::ReadableFile> file_;
  const std::string name_;
};

class LocalWriter final : public ObjectWriter {
 public:
  LocalWriter(env::FileSystem& file_system, env::Random& random,
              std::shared_ptr<LocalDirectories> directories, std::string path,
              std::unique_ptr<env::WritableFile> file)
      : file_system_(file_system),
        random_(random),
        directories_(std::move(directories)),
        path_(std::move(path)),
        directory_(ParentDirectory(path_)),
        file_(std::move(file)) {}

  Status Append(std::span<const uint8_t> data) override {
    if (file_ == nullptr) return Error(ErrorKind::kInvalid, "'{}' is finished already", path_);
    Status status = file_->Append(data);
    // Part of the data may be in the file: nothing that follows can be right.
    if (!status.ok()) failed_ = true;
    size_ = file_->size();
    return status;
  }

  uint64_t size() const override { return size_; }

  Status Finish(PutMode mode) override {
    if (file_ == nullptr) return Error(ErrorKind::kInvalid, "'{}' is finished already", path_);
    const std::unique_ptr<env::WritableFile> file = std::move(file_);
    if (failed_) return Error(ErrorKind::kIo, "'{}': an earlier append failed", path_);
    // Names that pile up in it and may all be lost would leave holes between those that are not.
    ARROW_RETURN_NOT_OK(directories_->CheckSynced(directory_));
    ARROW_RETURN_NOT_OK(Annotate(file->Sync(), path_));
    SARISSA_SYNC_POINT("local_store.before_link");
    ARROW_RETURN_NOT_OK(mode == PutMode::kIfAbsent ? LinkIfAbsent(*file) : Replace(*file));
    SARISSA_SYNC_POINT("local_store.after_link");
    return Unknown(directories_->Sync(directory_));
  }

 private:
  // The name may be visible, and may or may not survive a crash.
  Status Unknown(const Status& status) const {
    return Annotate(WithKind(status, ErrorKind::kOutcomeUnknown), fmt::format("put '{}'", path_));
  }

  // What failed while the name was being given; nothing landed unless the device failed in the
  // middle.
  Status AfterNaming(const Status& status) const {
    return Is(status, ErrorKind::kIo) ? Unknown(status) : status;
  }

  Status LinkIfAbsent(env::WritableFile& file) const {
    const Status linked = Link(file, path_);
    if (!Is(linked, ErrorKind::kAlreadyExists)) return AfterNaming(linked);
    // Whoever made the object may still be about to sync its entry; the caller will rely on it.
    ARROW_RETURN_NOT_OK(directories_->Sync(directory_));
    return linked;
  }

  Status Replace(env::WritableFile& file) const {
    const uint64_t high = random_.Next();
    const std::string temporary =
        fmt::format("{}/{}{:016x}{:016x}", directory_, kTemporaryPrefix, high, random_.Next());
    ARROW_RETURN_NOT_OK(Link(file, temporary));
    const Status renamed = file_system_.Rename(temporary, path_);
    if (renamed.ok()) return renamed;
    const Status removed = file_system_.RemoveFile(temporary);
    const bool clean = removed.ok() || Is(removed, ErrorKind::kNotFound);
    return AfterNaming(
        clean ? renamed
              : Annotate(renamed, fmt::format("and '{}' stays behind", removed.message())));
  }

  // The directory may have been deleted since the file was created in it.
  Status Link(env::WritableFile& file, const std::string& path) const {
    const Status linked = file.LinkAs(path);
    if (!Is(linked, ErrorKind::kNotFound)) return linked;
    directories_->ForgetAbove(directory_);
    ARROW_RETURN_NOT_OK(directories_->Make(directory_));
    return file.LinkAs(path);
  }

  env::FileSystem& file_system_;
  env::Random& random_;
  const std::shared_ptr<LocalDirectories> directories_;
  const std::string path_;
  const std::string directory_;
  std::unique_ptr<env::WritableFile> file_;
  uint64_t size_ = 0;
  bool failed_ = false;
};

}  // namespace

LocalStore::LocalStore(env::FileSystem& file_system, env::Random& random, std::string root)
    : file_system_(file_system),
      random_(random),
      root_(std::move(root)),
      directories_(std::make_shared<LocalDirectories>(file_system, root_)) {}

Result<std::unique_ptr<LocalStore>> LocalStore::Open(env::FileSystem& file_system,
                                                     env::Random& random, std::string root) {
  if (root.empty()) return Error(ErrorKind::kInvalid, "the root of a local store is empty");
  while (root.size() > 1 && root.ends_with('/')) root.pop_back();
  std::unique_ptr<LocalStore> store(new LocalStore(file_system, random, std::move(root)));
  ARROW_RETURN_NOT_OK(store->directories_->MakeRoot());
  return store;
}

std::string LocalStore::PathOf(const std::string& name) const {
  return root_ + "/" + name;
}

Result<std::unique_ptr<ObjectWriter>> LocalStore::Create(const std::string& name) {
  ARROW_RETURN_NOT_OK(CheckWritableName(name));
  std::string path = PathOf(name);
  const std::string directory = ParentDirectory(path);
  ARROW_RETURN_NOT_OK(directories_->Make(directory));
  Result<std::unique_ptr<env::WritableFile>> file = file_system_.CreateUnnamed(directory);
  if (Is(file.status(), ErrorKind::kNotFound)) {
    // Someone deleted the directory that we remember.
    directories_->ForgetAbove(directory);
    ARROW_RETURN_NOT_OK(directories_->Make(directory));
    file = file_system_.CreateUnnamed(directory);
  }
  ARROW_RETURN_NOT_OK(file.status());
  return std::make_unique<LocalWriter>(file_system_, random_, directories_, std::move(path),
                                       file.MoveValueUnsafe());
}

Result<std::shared_ptr<ObjectReader>> LocalStore::Open(const std::string& name) {
  ARROW_RETURN_NOT_OK(CheckName(name));
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<env::ReadableFile> file,
                        file_system_.OpenRead(PathOf(name)));
  return std::make_shared<LocalReader>(std::move(file), name);
}

Result<ObjectInfo> LocalStore::Head(const std::string& name) {
  ARROW_RETURN_NOT_OK(CheckName(name));
  ARROW_ASSIGN_OR_RAISE(const env::FileInfo info, file_system_.Stat(PathOf(name)));
  if (info.is_directory) return Error(ErrorKind::kNotFound, "'{}' is not an object", name);
  return ObjectInfo{.name = name, .size = info.size};
}

Result<Listing> LocalStore::List(const std::string& prefix, const ListOptions& options) {
  return ListLocal(file_system_, root_, prefix, options);
}

Status LocalStore::Delete(const std::string& name) {
  ARROW_RETURN_NOT_OK(CheckName(name));
  const std::string path = PathOf(name);
  const Status removed = file_system_.RemoveFile(path);
  if (removed.ok() || Is(removed, ErrorKind::kNotFound)) return Status::OK();
  const Result<env::FileInfo> info = file_system_.Stat(path);
  const bool is_folder = info.ok() && info->is_directory;
  return is_folder ? Status::OK() : removed;
}

Status LocalStore::DeletePrefix(const std::string& prefix) {
  ARROW_RETURN_NOT_OK(CheckPrefix(prefix));
  if (prefix.empty()) return Error(ErrorKind::kInvalid, "the prefix to delete is empty");
  const std::string directory = PathOf(prefix.substr(0, prefix.size() - 1));
  ARROW_RETURN_NOT_OK(DeleteTree(directory));
  directories_->ForgetBelow(directory);
  // Also when there was nothing to delete: an earlier attempt may have ended before its sync.
  const Status synced = directories_->Sync(ParentDirectory(directory));
  return Is(synced, ErrorKind::kNotFound) ? Status::OK() : synced;
}

Status LocalStore::DeleteTree(const std::string& directory) {
  Status removed;
  for (int attempt = 0; attempt < kDeleteTreeAttempts; ++attempt) {
    const Result<std::vector<env::FileInfo>> entries = file_system_.List(directory);
    if (Is(entries.status(), ErrorKind::kNotFound)) return Status::OK();
    ARROW_RETURN_NOT_OK(entries.status());
    for (const env::FileInfo& entry : *entries) {
      const std::string path = directory + "/" + entry.name;
      const Status gone = entry.is_directory ? DeleteTree(path) : file_system_.RemoveFile(path);
      if (!gone.ok() && !Is(gone, ErrorKind::kNotFound)) return gone;
    }
    removed = file_system_.RemoveDirectory(directory);
    if (removed.ok() || Is(removed, ErrorKind::kNotFound)) return Status::OK();
  }
  return removed;
}

}  // namespace sarissa::object_store
