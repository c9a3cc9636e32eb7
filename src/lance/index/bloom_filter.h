// bloom_filter.bin of a generation: a raw Parquet split-block Bloom filter over key hashes.
//
// The file has no header: n blocks of 32 bytes, little-endian. The original always writes 1,024
// blocks; ours are sized for the keys (a power of two blocks, at least one). Hash: SipHash-1-3 with
// key (0,0) over, per key column, one byte is_null, then the value: integers little-endian at
// native width, bool one byte, strings bytes + 0xFF, binary u64 LE length + bytes. The original
// hashes only the null byte for some types (unsigned, int8/16, large and boolean keys): ignore its
// filters there. Immutable after construction except Add; thread safe for reads.
#pragma once

#include <arrow/array.h>
#include <arrow/buffer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sarissa::lance {

uint64_t SipHash13(std::span<const uint8_t> data);

// Hash of row `row` of the key columns, in key order. kUnsupported for a type that cannot be a key.
Result<uint64_t> KeyHash(std::span<const std::shared_ptr<arrow::Array>> key_columns, int64_t row);

class BloomFilter {
 public:
  // Sized for `keys` at a false positive rate of about 0.1 %.
  static BloomFilter ForKeys(uint64_t keys);
  // kCorrupt unless the size is a positive multiple of 32.
  static Result<BloomFilter> FromBytes(std::shared_ptr<arrow::Buffer> bytes);

  void Add(uint64_t hash);
  bool MayContain(uint64_t hash) const;
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace sarissa::lance
