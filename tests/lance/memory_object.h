// An object in memory. Ranges of env::kMapThresholdBytes and more come back as slices of its one
// buffer, as a store that maps files would give them; shorter ranges are copied, so that the
// sanitizers see every byte read past their end.
#pragma once

#include <arrow/buffer.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "env/mapped_range.h"
#include "object_store/object_store.h"

namespace sarissa::lance {

class MemoryObject final : public object_store::ObjectReader {
 public:
  MemoryObject(std::string name, std::shared_ptr<arrow::Buffer> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}

  static std::shared_ptr<MemoryObject> Of(std::vector<uint8_t> bytes) {
    return std::make_shared<MemoryObject>("test.lance",
                                          arrow::Buffer::FromVector(std::move(bytes)));
  }

  uint64_t size() const override { return static_cast<uint64_t>(bytes_->size()); }
  const std::string& name() const override { return name_; }
  const arrow::Buffer& bytes() const { return *bytes_; }

  Result<std::shared_ptr<arrow::Buffer>> ReadRange(uint64_t offset,
                                                   uint64_t length) const override {
    if (offset > size() || length > size() - offset) {
      return Error(ErrorKind::kIo, "{}: bytes [{}, +{}) of {}", name_, offset, length, size());
    }
    bytes_read_ += length;
    if (length >= static_cast<uint64_t>(env::kMapThresholdBytes)) {
      return arrow::SliceBuffer(bytes_, static_cast<int64_t>(offset), static_cast<int64_t>(length));
    }
    ARROW_ASSIGN_OR_RAISE(auto copy, arrow::AllocateBuffer(static_cast<int64_t>(length)));
    if (length > 0) std::memcpy(copy->mutable_data(), bytes_->data() + offset, length);
    return std::shared_ptr<arrow::Buffer>(std::move(copy));
  }

  // Of all reads so far; for tests on one thread.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  std::string name_;
  std::shared_ptr<arrow::Buffer> bytes_;
  mutable uint64_t bytes_read_ = 0;
};

}  // namespace sarissa::lance
