// The tail of a Lance data file: footer, offset tables, file descriptor.
//
// Layout (little-endian): column metadata messages; per column u64 position, u64 size; per global
// buffer the same; footer of 40 bytes: u64 position of the first column metadata, u64 of the column
// table, u64 of the global buffer table, u32 number of global buffers, u32 number of columns, u16
// major, u16 minor, "LANC". Global buffer 0 is the FileDescriptor. One read of the last 64 KiB is
// enough for small files. Immutable after the read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "lance/file/file_version.h"
#include "object_store/object_store.h"

namespace sarissa::lance {

struct FileRange {
  uint64_t offset = 0;
  uint64_t size = 0;
};

struct FileFooter {
  FileVersion version;
  std::vector<FileRange> column_metadata;
  // Bytes of the column metadata messages, one after the other, if they are few; else empty, to be
  // read one by one.
  std::string metadata_bytes;
  std::string descriptor_bytes;  // a serialized FileDescriptor
};

// kCorrupt names what is wrong; kUnsupported names a version that is not read.
Result<FileFooter> ReadFooter(const object_store::ObjectReader& object);

}  // namespace sarissa::lance
