// Open files of the machine: see ReadableFile and WritableFile in env/file_system.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "env/file_system.h"
#include "env/posix/file_descriptor.h"

namespace sarissa::env {

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(FileDescriptor file, uint64_t size, std::string path)
      : file_(std::move(file)), size_(size), path_(std::move(path)) {}

  uint64_t size() const override { return size_; }
  Result<std::shared_ptr<arrow::Buffer>> ReadAt(uint64_t offset, uint64_t length) const override;
  Result<std::shared_ptr<arrow::Buffer>> Map(uint64_t offset, uint64_t length) const override;

 private:
  Status CheckRange(uint64_t offset, uint64_t length) const;

  const FileDescriptor file_;
  const uint64_t size_;
  const std::string path_;
};

class PosixWritableFile final : public WritableFile {
 public:
  struct Origin {
    std::string directory;
    // The name the file has for now where nameless files are not supported; else empty.
    std::string temporary_path;
    bool sync = true;
  };

  PosixWritableFile(FileDescriptor file, Origin origin)
      : file_(std::move(file)), origin_(std::move(origin)) {}
  ~PosixWritableFile() override;

  Status Append(std::span<const uint8_t> data) override;
  uint64_t size() const override { return size_; }
  Status Sync() override;
  Status LinkAs(const std::string& path) override;
  Result<std::shared_ptr<ReadableFile>> OpenForRead() override;

 private:
  const FileDescriptor file_;
  Origin origin_;
  uint64_t size_ = 0;
  bool sync_failed_ = false;
};

}  // namespace sarissa::env
