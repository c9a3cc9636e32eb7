#include <vector>

#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

// Byte k of all values together, for each k.
class ByteStreamSplit final : public ValueDecoder {
 public:
  ByteStreamSplit(uint64_t bits, std::string path) : ValueDecoder(std::move(path)), bits_(bits) {}

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    ARROW_ASSIGN_OR_RAISE(const uint64_t bytes, PackedBytes(count, 1, bits_, path()));
    if (bytes > buffers[0].size()) {
      return Corrupt("{} values of {} bits in a buffer of {} bytes", count, bits_,
                     buffers[0].size());
    }
    values_.resize(bytes);
    const uint64_t width = bytes == 0 ? 0 : bits_ / 8;
    const uint8_t* from = buffers[0].data();
    for (uint64_t k = 0; k < width; ++k, from += count) {
      uint8_t* to = values_.data() + k;
      for (uint64_t i = 0; i < count; ++i) to[i * width] = from[i];
    }
    *out = ValueBlock{.count = count, .bits_per_item = bits_, .data = Bytes(values_)};
    return Status::OK();
  }

 private:
  uint64_t bits_;
  std::vector<uint8_t> values_;
};

}  // namespace

DecoderResult MakeByteStreamSplit(const pb::encodings::ByteStreamSplit& node,
                                  const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const uint64_t bits, FlatBits(node.values(), path));
  if (bits % 8 != 0) return Error(ErrorKind::kCorrupt, "{}: values of {} bits", path, bits);
  return std::make_unique<ByteStreamSplit>(bits, path);
}

}  // namespace sarissa::lance
