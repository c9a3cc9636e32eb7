#include "lance/index/bloom_filter.h"

#include <arrow/type.h>
#include <arrow/type_traits.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace sarissa::lance {
namespace {

constexpr size_t kBlockBytes = 32;
constexpr size_t kWords = 8;
constexpr double kFalsePositiveRate = 0.001;
constexpr uint64_t kMaxBlocks = uint64_t{1} << 24;
// The salts of the Parquet split-block filter.
constexpr uint32_t kSalt[kWords] = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                    0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

// SipHash-1-3 with key (0, 0), fed piece by piece.
class SipHasher {
 public:
  void Update(const uint8_t* data, size_t length) {
    length_ += length;
    while (tail_bytes_ > 0 && length > 0) {
      TakeByte(*data++);
      --length;
    }
    for (; length >= 8; data += 8, length -= 8) {
      uint64_t word;
      std::memcpy(&word, data, sizeof(word));
      TakeWord(word);
    }
    for (; length > 0; --length) TakeByte(*data++);
  }
  void Update(uint8_t byte) { Update(&byte, 1); }

  uint64_t Finish() {
    TakeWord(tail_ | length_ << 56);
    v2_ ^= 0xFF;
    for (int i = 0; i < 3; ++i) Round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void TakeByte(uint8_t byte) {
    tail_ |= uint64_t{byte} << (8 * tail_bytes_);
    if (++tail_bytes_ < 8) return;
    TakeWord(tail_);
    tail_ = 0;
    tail_bytes_ = 0;
  }
  void TakeWord(uint64_t word) {
    v3_ ^= word;
    Round();
    v0_ ^= word;
  }
  void Round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  uint64_t v0_ = 0x736f6d6570736575;
  uint64_t v1_ = 0x646f72616e646f6d;
  uint64_t v2_ = 0x6c7967656e657261;
  uint64_t v3_ = 0x7465646279746573;
  uint64_t tail_ = 0;
  uint32_t tail_bytes_ = 0;
  uint64_t length_ = 0;
};

template <typename ArrayType>
void HashPrimitive(const arrow::Array& array, int64_t row, SipHasher& hasher) {
  const auto value = static_cast<const ArrayType&>(array).Value(row);
  hasher.Update(reinterpret_cast<const uint8_t*>(&value), sizeof(value));
}

template <typename ArrayType>
void HashString(const arrow::Array& array, int64_t row, SipHasher& hasher) {
  const std::string_view value = static_cast<const ArrayType&>(array).GetView(row);
  hasher.Update(reinterpret_cast<const uint8_t*>(value.data()), value.size());
  hasher.Update(0xFF);
}

template <typename ArrayType>
void HashBinary(const arrow::Array& array, int64_t row, SipHasher& hasher) {
  const std::string_view value = static_cast<const ArrayType&>(array).GetView(row);
  const uint64_t length = value.size();
  hasher.Update(reinterpret_cast<const uint8_t*>(&length), sizeof(length));
  hasher.Update(reinterpret_cast<const uint8_t*>(value.data()), value.size());
}

Status HashValue(const arrow::Array& array, int64_t row, SipHasher& hasher) {
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      hasher.Update(static_cast<const arrow::BooleanArray&>(array).Value(row) ? 1 : 0);
      return Status::OK();
    case arrow::Type::INT8:
      HashPrimitive<arrow::Int8Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::INT16:
      HashPrimitive<arrow::Int16Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::INT32:
      HashPrimitive<arrow::Int32Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::INT64:
      HashPrimitive<arrow::Int64Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::UINT8:
      HashPrimitive<arrow::UInt8Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::UINT16:
      HashPrimitive<arrow::UInt16Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::UINT32:
      HashPrimitive<arrow::UInt32Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::UINT64:
      HashPrimitive<arrow::UInt64Array>(array, row, hasher);
      return Status::OK();
    case arrow::Type::STRING:
      HashString<arrow::StringArray>(array, row, hasher);
      return Status::OK();
    case arrow::Type::LARGE_STRING:
      HashString<arrow::LargeStringArray>(array, row, hasher);
      return Status::OK();
    case arrow::Type::BINARY:
      HashBinary<arrow::BinaryArray>(array, row, hasher);
      return Status::OK();
    case arrow::Type::LARGE_BINARY:
      HashBinary<arrow::LargeBinaryArray>(array, row, hasher);
      return Status::OK();
    default:
      return Error(ErrorKind::kUnsupported, "a column of type {} cannot be a primary key",
                   array.type()->ToString());
  }
}

size_t BlockOffset(uint64_t hash, size_t bytes) {
  const uint64_t blocks = bytes / kBlockBytes;
  return static_cast<size_t>(((hash >> 32) * blocks) >> 32) * kBlockBytes;
}

uint32_t Mask(uint64_t hash, size_t word) {
  return uint32_t{1} << (static_cast<uint32_t>(hash) * kSalt[word] >> 27);
}

}  // namespace

uint64_t SipHash13(std::span<const uint8_t> data) {
  SipHasher hasher;
  hasher.Update(data.data(), data.size());
  return hasher.Finish();
}

Result<uint64_t> KeyHash(std::span<const std::shared_ptr<arrow::Array>> key_columns, int64_t row) {
  SipHasher hasher;
  for (const auto& column : key_columns) {
    const bool is_null = column->IsNull(row);
    hasher.Update(is_null ? 1 : 0);
    if (!is_null) ARROW_RETURN_NOT_OK(HashValue(*column, row, hasher));
  }
  return hasher.Finish();
}

BloomFilter BloomFilter::ForKeys(uint64_t keys) {
  // A split-block filter of m bits with n keys has a false positive rate of (1 - exp(-8n/m))^8.
  const double bits =
      -8.0 * static_cast<double>(keys) / std::log(1.0 - std::pow(kFalsePositiveRate, 1.0 / 8.0));
  const double blocks = std::ceil(bits / (8.0 * kBlockBytes));
  const uint64_t rounded = std::bit_ceil(
      static_cast<uint64_t>(std::clamp(blocks, 1.0, static_cast<double>(kMaxBlocks))));
  BloomFilter filter;
  filter.bytes_.resize(rounded * kBlockBytes);
  return filter;
}

Result<BloomFilter> BloomFilter::FromBytes(std::shared_ptr<arrow::Buffer> bytes) {
  if (bytes->size() == 0 || bytes->size() % static_cast<int64_t>(kBlockBytes) != 0) {
    return Error(ErrorKind::kCorrupt,
                 "a bloom filter of {} bytes is not a positive number of 32-byte blocks",
                 bytes->size());
  }
  BloomFilter filter;
  filter.bytes_.assign(bytes->data(), bytes->data() + bytes->size());
  return filter;
}

void BloomFilter::Add(uint64_t hash) {
  uint8_t* block = bytes_.data() + BlockOffset(hash, bytes_.size());
  for (size_t i = 0; i < kWords; ++i) {
    uint32_t word;
    std::memcpy(&word, block + 4 * i, sizeof(word));
    word |= Mask(hash, i);
    std::memcpy(block + 4 * i, &word, sizeof(word));
  }
}

bool BloomFilter::MayContain(uint64_t hash) const {
  const uint8_t* block = bytes_.data() + BlockOffset(hash, bytes_.size());
  for (size_t i = 0; i < kWords; ++i) {
    uint32_t word;
    std::memcpy(&word, block + 4 * i, sizeof(word));
    if ((word & Mask(hash, i)) == 0) return false;
  }
  return true;
}

}  // namespace sarissa::lance
