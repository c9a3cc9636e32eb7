// The encoding tree of a page as decoders: one node of the format's CompressiveEncoding is one
// class in one file of this folder.
//
// Three forms of the same nodes: in a mini-block chunk a node takes num_buffers() buffers; as a
// block (levels, dictionaries) exactly one; in the full-zip layout a node turns one stored value
// into its bytes. A decoder serves one page and one thread; blocks are views of its input or of its
// own memory, good until the next Decode. Errors: kUnsupported with the node's path for a node we
// do not read, kCorrupt with the path for bytes that cannot be right.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "proto/lance_encodings.pb.h"

namespace sarissa::lance {

using Bytes = std::span<const uint8_t>;
using Encoding = pb::encodings::CompressiveEncoding;

// Values of one chunk or block.
struct ValueBlock {
  uint64_t count = 0;
  // 1 or a multiple of 8; 0 means variable width.
  uint64_t bits_per_item = 0;
  // More than 1 for fixed-size lists only.
  uint64_t items_per_value = 1;
  // Fixed width: the items, packed. Variable width: what `offsets` point into.
  Bytes data{};
  // Empty, or one bit per item.
  Bytes item_validity{};
  // Variable width: count + 1 offsets of `offset_bytes` (4 or 8) each, not yet checked.
  Bytes offsets{};
  uint32_t offset_bytes = 0;

  uint64_t Offset(uint64_t i) const;
  // Checks that the offsets [first, first + count] ascend and stay inside `data`.
  Status CheckOffsets(uint64_t first, uint64_t n) const;
  // Value i of a variable-width block whose offsets were checked.
  Bytes Variable(uint64_t i) const;
  // Value i of a fixed-width block of whole bytes.
  Bytes Fixed(uint64_t i) const;
};

class ValueDecoder {
 public:
  explicit ValueDecoder(std::string path) : path_(std::move(path)) {}
  virtual ~ValueDecoder() = default;
  // Buffers that it takes from a chunk.
  virtual uint64_t num_buffers() const { return 1; }
  // `buffers` holds num_buffers() entries.
  virtual Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) = 0;

 protected:
  template <typename... Args>
  Status Corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(ErrorKind::kCorrupt,
                     path_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Turns one stored value of a full-zip page into its bytes.
class ItemDecoder {
 public:
  virtual ~ItemDecoder() = default;
  // A view of `stored` or of the decoder's memory, good until the next call.
  virtual Result<Bytes> Decode(Bytes stored) = 0;
  // True if a stored value is its bytes.
  virtual bool verbatim() const { return false; }
};

Result<std::unique_ptr<ValueDecoder>> MakeMiniBlockDecoder(const Encoding& encoding,
                                                           const std::string& path);
Result<std::unique_ptr<ValueDecoder>> MakeBlockDecoder(const Encoding& encoding,
                                                       const std::string& path);
Result<std::unique_ptr<ItemDecoder>> MakeItemDecoder(const Encoding& encoding,
                                                     const std::string& path);

// Name of the node as the format spells it: "inline_bitpacking".
std::string NodeName(const Encoding& encoding);
Status UnsupportedNode(const Encoding& encoding, const std::string& path);
// Bits of a flat node; kUnsupported for any other node, kCorrupt unless 1 or a multiple of 8.
Result<uint64_t> FlatBits(const Encoding& encoding, const std::string& path);
// kUnsupported if a buffer of a leaf node is compressed on its own.
Status CheckUncompressed(const pb::encodings::BufferCompression& compression,
                         const std::string& path);
// Bytes of `count` values of `items` items of `bits` bits; kCorrupt when that is more than any
// buffer can be.
Result<uint64_t> PackedBytes(uint64_t count, uint64_t items, uint64_t bits,
                             const std::string& path);

}  // namespace sarissa::lance
