#include <cstring>
#include <vector>

#include "lance/file/encoding/bitpacking.h"
#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

// A width of 0 says nothing about the count; no page has more values than this in one block of
// zeros.
constexpr uint64_t kMaxZeros = uint64_t{1} << 22;

// Groups of 1024 packed values, the width outside. The values after the last whole group are either
// packed as a group of their own or stored plainly: plainly if and only if exactly that many words
// are left. Width 0 stands for zeros without any bytes.
class OutOfLineBitpacking final : public ValueDecoder {
 public:
  OutOfLineBitpacking(uint64_t bits, uint64_t width, std::string path)
      : ValueDecoder(std::move(path)), bits_(bits), width_(width) {}

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    Bytes rest = buffers[0];
    const uint64_t word = bits_ / 8;
    const uint64_t packed_bytes = 128 * width_;
    const uint64_t whole = count / kPackedGroup;
    const uint64_t tail = count % kPackedGroup;
    if (packed_bytes == 0 ? count > kMaxZeros : whole > rest.size() / packed_bytes) {
      return Corrupt("{} values of {} bits in a buffer of {} bytes", count, width_, rest.size());
    }
    const uint64_t group_bytes = kPackedGroup * word;
    values_.resize((whole + (tail != 0)) * group_bytes);
    uint8_t* to = values_.data();
    for (uint64_t group = 0; group < whole; ++group, to += group_bytes) {
      UnpackGroup(bits_, width_, rest.data(), to);
      rest = rest.subspan(packed_bytes);
    }
    if (tail != 0) {
      if (rest.size() == tail * word) {
        std::memcpy(to, rest.data(), rest.size());
      } else if (rest.size() >= packed_bytes) {
        UnpackGroup(bits_, width_, rest.data(), to);
      } else {
        return Corrupt("the last {} values of {} bits in {} bytes", tail, width_, rest.size());
      }
    }
    *out = ValueBlock{
        .count = count, .bits_per_item = bits_, .data = Bytes(values_).first(count * word)};
    return Status::OK();
  }

 private:
  uint64_t bits_;
  uint64_t width_;
  std::vector<uint8_t> values_;
};

}  // namespace

DecoderResult MakeOutOfLineBitpacking(const pb::encodings::OutOfLineBitpacking& node,
                                      const std::string& path) {
  const uint64_t bits = node.uncompressed_bits_per_value();
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
    return Error(ErrorKind::kCorrupt, "{}: values of {} bits", path, bits);
  }
  if (!node.values().has_flat()) return UnsupportedNode(node.values(), path);
  ARROW_RETURN_NOT_OK(CheckUncompressed(node.values().flat().data(), path + "/flat"));
  const uint64_t width = node.values().flat().bits_per_value();
  if (width > bits) {
    return Error(ErrorKind::kCorrupt, "{}: values of {} bits packed in {} bits", path, bits, width);
  }
  return std::make_unique<OutOfLineBitpacking>(bits, width, path);
}

}  // namespace sarissa::lance
