#include "env/sim/sim_file.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <utility>

namespace sarissa::env {

Result<std::shared_ptr<arrow::Buffer>> SimReadableFile::Read(SimOperationKind kind, uint64_t offset,
                                                             uint64_t length) const {
  if (offset > size_ || length > size_ - offset) {
    return Error(ErrorKind::kInvalid,
                 "read '{}': {} bytes at offset {} are not within its {} bytes", path_, length,
                 offset, size_);
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(static_cast<int64_t>(length)));
  SimOperation operation{.kind = kind, .path = path_, .bytes = length, .file = inode_->number};
  ARROW_RETURN_NOT_OK(
      SimFileSystem::Perform(*shared_, std::move(operation), [&](SimOperation&) -> Status {
        if (offset + length > inode_->bytes.size()) {
          return Error(ErrorKind::kIo,
                       "'{}': {} bytes at offset {} were asked for, the file has {}", path_, length,
                       offset, inode_->bytes.size());
        }
        std::copy_n(inode_->bytes.begin() + static_cast<std::ptrdiff_t>(offset), length,
                    buffer->mutable_data());
        return Status::OK();
      }));
  return buffer;
}

Result<std::shared_ptr<arrow::Buffer>> SimReadableFile::ReadAt(uint64_t offset,
                                                               uint64_t length) const {
  return Read(SimOperationKind::kRead, offset, length);
}

Result<std::shared_ptr<arrow::Buffer>> SimReadableFile::Map(uint64_t offset,
                                                            uint64_t length) const {
  return Read(SimOperationKind::kMap, offset, length);
}

SimWritableFile::~SimWritableFile() = default;

SimOperation SimWritableFile::Operation(SimOperationKind kind, uint64_t bytes) const {
  return {.kind = kind, .path = label_, .bytes = bytes, .file = inode_->number};
}

Status SimWritableFile::Append(std::span<const uint8_t> data) {
  return SimFileSystem::Perform(
      *shared_, Operation(SimOperationKind::kAppend, data.size()), [&](SimOperation&) {
        inode_->bytes.insert(inode_->bytes.end(), data.begin(), data.end());
        size_ += data.size();
        return Status::OK();
      });
}

Status SimWritableFile::Sync() {
  Status result = SimFileSystem::Perform(*shared_, Operation(SimOperationKind::kSync, size_),
                                         [&](SimOperation&) {
                                           if (!inode_->lost_pages)
                                             inode_->synced_size = inode_->bytes.size();
                                           return Status::OK();
                                         });
  if (!result.ok()) {
    const std::scoped_lock lock(shared_->disk.mutex_);
    inode_->lost_pages = true;
  }
  return result;
}

Status SimWritableFile::LinkAs(const std::string& path) {
  SimOperation operation = Operation(SimOperationKind::kLink, size_);
  operation.path = path;
  ARROW_RETURN_NOT_OK(
      SimFileSystem::Perform(*shared_, std::move(operation), [&](SimOperation&) -> Status {
        ARROW_ASSIGN_OR_RAISE(const SimDisk::Place place, shared_->disk.FindPlace(path));
        if (place.inode != nullptr) return Error(ErrorKind::kAlreadyExists, "'{}': exists", path);
        SimDisk::SetEntry(place.directory, place.name, inode_);
        return Status::OK();
      }));
  label_ = path;
  return Status::OK();
}

Result<std::shared_ptr<ReadableFile>> SimWritableFile::OpenForRead() {
  return std::make_shared<SimReadableFile>(shared_, inode_, size_, label_);
}

Result<std::unique_ptr<WritableFile>> SimFileSystem::CreateUnnamed(const std::string& directory) {
  SimDisk::InodePtr inode;
  SimOperation operation{.kind = SimOperationKind::kCreateUnnamed, .path = directory};
  ARROW_RETURN_NOT_OK(Perform(*shared_, std::move(operation), [&](SimOperation& logged) -> Status {
    ARROW_ASSIGN_OR_RAISE(const SimDisk::InodePtr parent, shared_->disk.Find(directory));
    if (!parent->is_directory)
      return Error(ErrorKind::kNotFound, "'{}': not a directory", directory);
    inode = shared_->disk.NewInode(/*is_directory=*/false);
    logged.file = inode->number;
    return Status::OK();
  }));
  return std::make_unique<SimWritableFile>(shared_, inode,
                                           fmt::format("{}/#{}", directory, inode->number));
}

Result<std::shared_ptr<ReadableFile>> SimFileSystem::OpenRead(const std::string& path) {
  std::shared_ptr<ReadableFile> file;
  ARROW_RETURN_NOT_OK(
      Perform(*shared_, {.kind = SimOperationKind::kOpenRead, .path = path},
              [&](SimOperation& logged) -> Status {
                ARROW_ASSIGN_OR_RAISE(const SimDisk::InodePtr inode, shared_->disk.Find(path));
                if (inode->is_directory)
                  return Error(ErrorKind::kNotFound, "'{}': not a regular file", path);
                logged.file = inode->number;
                file = std::make_shared<SimReadableFile>(shared_, inode, inode->bytes.size(), path);
                return Status::OK();
              }));
  return file;
}

}  // namespace sarissa::env
