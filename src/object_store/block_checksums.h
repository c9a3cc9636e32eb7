// Checksums of files by block, and the sidecar that holds them: what the Lance format lacks. One
// sidecar covers the files below the folder that it lies in, or one data file alone.
//
// `_sarissa_checksums.bin`, little-endian: "SRSC" · u16 version 1 · u16 0 · u32 count · count ×
// {u16 name length, name relative to the folder, u64 size, u32 block bytes, one u32 CRC32C per
// block, the last block being what is left} in ascending order of names · u32 CRC32C of all bytes
// before. A format of ours: other readers ignore the file. Values only; the functions are
// stateless.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace sarissa::object_store {

inline constexpr char kChecksumSidecarName[] = "_sarissa_checksums.bin";
inline constexpr uint32_t kChecksumBlockBytes = 64 << 10;

struct FileChecksums {
  uint64_t size = 0;
  uint32_t block_bytes = kChecksumBlockBytes;
  std::vector<uint32_t> blocks;
  bool operator==(const FileChecksums&) const = default;
};

// By name relative to the folder of the sidecar.
using ChecksumTable = std::map<std::string, FileChecksums, std::less<>>;

// Takes the bytes of one file in order, in pieces of any size. One thread at a time.
class BlockChecksummer {
 public:
  void Append(std::span<const uint8_t> data);
  // The checksums of what was appended so far.
  FileChecksums Current() const;

 private:
  uint64_t size_ = 0;
  uint32_t block_crc_ = 0;  // of the last block, while it is not full
  std::vector<uint32_t> full_blocks_;
};

// kInvalid: a name that no sidecar can hold.
Result<std::string> EncodeChecksumTable(const ChecksumTable& table);
// kUnsupported: a version that we do not know. kCorrupt: anything else that is not such a sidecar.
Result<ChecksumTable> DecodeChecksumTable(std::span<const uint8_t> bytes);

}  // namespace sarissa::object_store
