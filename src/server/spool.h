// The file that large uploaded parts go to while they arrive, so that an upload costs disk and not
// memory.
//
// Nameless: it vanishes with the last buffer that maps it. Calls block and belong on the storage
// executor; one thread at a time.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "env/file_system.h"

namespace sarissa::server {

// Makes `<data_dir>/_sarissa/spool` with its parents; directories that exist are fine. `data_dir`
// has no trailing '/'.
Result<std::string> PrepareSpoolDirectory(env::FileSystem& file_system,
                                          const std::string& data_dir);

class Spool {
 public:
  static Result<std::unique_ptr<Spool>> Create(env::FileSystem& file_system,
                                               const std::string& directory);

  // Small pieces are gathered, so that the file grows by at least kWriteBytes at a time.
  Status Append(std::span<const uint8_t> data);
  uint64_t size() const { return file_->size() + gathered_.size(); }
  // Writes what is gathered; after it ranges can be mapped.
  Status Finish();
  Result<std::shared_ptr<arrow::Buffer>> Map(uint64_t offset, uint64_t length) const;

 private:
  static constexpr size_t kWriteBytes = 256 << 10;

  explicit Spool(std::unique_ptr<env::WritableFile> file) : file_(std::move(file)) {}
  Status WriteGathered();

  std::unique_ptr<env::WritableFile> file_;
  std::shared_ptr<env::ReadableFile> reader_;
  std::string gathered_;
};

}  // namespace sarissa::server
