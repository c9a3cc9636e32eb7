// Open files of a SimFileSystem. They may outlive it; then their calls fail.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "env/sim/sim_file_system.h"

namespace sarissa::env {

class SimReadableFile final : public ReadableFile {
 public:
  SimReadableFile(std::shared_ptr<SimFileSystem::Shared> shared, SimDisk::InodePtr inode,
                  uint64_t size, std::string path)
      : shared_(std::move(shared)), inode_(std::move(inode)), size_(size), path_(std::move(path)) {}

  uint64_t size() const override { return size_; }
  Result<std::shared_ptr<arrow::Buffer>> ReadAt(uint64_t offset, uint64_t length) const override;
  Result<std::shared_ptr<arrow::Buffer>> Map(uint64_t offset, uint64_t length) const override;

 private:
  Result<std::shared_ptr<arrow::Buffer>> Read(SimOperationKind kind, uint64_t offset,
                                              uint64_t length) const;

  const std::shared_ptr<SimFileSystem::Shared> shared_;
  const SimDisk::InodePtr inode_;
  const uint64_t size_;
  const std::string path_;
};

class SimWritableFile final : public WritableFile {
 public:
  SimWritableFile(std::shared_ptr<SimFileSystem::Shared> shared, SimDisk::InodePtr inode,
                  std::string label)
      : shared_(std::move(shared)), inode_(std::move(inode)), label_(std::move(label)) {}
  ~SimWritableFile() override;

  Status Append(std::span<const uint8_t> data) override;
  uint64_t size() const override { return size_; }
  Status Sync() override;
  Status LinkAs(const std::string& path) override;
  Result<std::shared_ptr<ReadableFile>> OpenForRead() override;

 private:
  SimOperation Operation(SimOperationKind kind, uint64_t bytes) const;

  const std::shared_ptr<SimFileSystem::Shared> shared_;
  const SimDisk::InodePtr inode_;
  std::string label_;  // the directory and file number, or the last name given
  uint64_t size_ = 0;
};

}  // namespace sarissa::env
