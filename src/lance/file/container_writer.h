// The container of a data file: 64-byte aligned buffers, then the global buffer with the file
// descriptor, the metadata of the columns, the two offset tables, and the 40-byte footer "LANC".
//
// Owned by a file writer, used by one thread. Collects small appends into blocks; large buffers go
// straight to the sink.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lance/file/file_version.h"
#include "object_store/object_store.h"
#include "proto/lance_encodings.pb.h"
#include "proto/lance_file.pb.h"

namespace sarissa::lance {

// Where a buffer lies in the file.
struct BufferPlace {
  uint64_t offset = 0;
  uint64_t size = 0;
};

class ContainerWriter {
 public:
  ContainerWriter(std::unique_ptr<object_store::ObjectWriter> sink, FileVersion version,
                  int num_columns);

  FileVersion version() const { return version_; }
  uint64_t position() const { return position_; }

  // A buffer begins at the next multiple of 64 and holds what is appended until its end.
  Status BeginBuffer();
  Status Append(const void* data, size_t size) {
    if (size > kBlockBytes - block_size_) return AppendSlow(data, size);
    std::memcpy(block_.get() + block_size_, data, size);
    block_size_ += size;
    position_ += size;
    return Status::OK();
  }
  // For values that are file ranges or large: passed on without a copy.
  Status AppendBuffer(const arrow::Buffer& buffer);
  BufferPlace EndBuffer() const { return {buffer_start_, position_ - buffer_start_}; }
  Result<BufferPlace> WriteBuffer(const void* data, size_t size);

  // Pages of a column in row order; `rows` is the page's number of rows.
  Status AddPage(int column, const std::vector<BufferPlace>& buffers, uint64_t rows,
                 const pb::encodings::PageLayout& layout);

  // Writes the tail and finishes the sink; returns the size of the file.
  Result<uint64_t> Finish(const pb::file::FileDescriptor& descriptor, object_store::PutMode mode);

 private:
  static constexpr size_t kBlockBytes = 256 << 10;

  struct Column {
    pb::file::ColumnMetadata metadata;
    uint64_t rows = 0;
  };

  Status AppendSlow(const void* data, size_t size);
  Status FlushBlock();
  Status AppendLittleEndian(uint64_t value, int bytes);
  Status AppendPlaces(const std::vector<BufferPlace>& places);

  std::unique_ptr<object_store::ObjectWriter> sink_;
  FileVersion version_;
  std::unique_ptr<uint8_t[]> block_;
  size_t block_size_ = 0;
  uint64_t position_ = 0;
  uint64_t buffer_start_ = 0;
  std::vector<Column> columns_;
};

}  // namespace sarissa::lance
