#include <vector>

#include "lance/file/encoding/bitpacking.h"
#include "lance/file/encoding/load.h"
#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

// Per group of 1024 values: one word that holds the packed width, then the packed words. The last
// group is zero-filled.
class InlineBitpacking final : public ValueDecoder {
 public:
  InlineBitpacking(uint64_t bits, std::string path) : ValueDecoder(std::move(path)), bits_(bits) {}

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    Bytes rest = buffers[0];
    const uint64_t groups = count / kPackedGroup + (count % kPackedGroup != 0);
    const uint64_t word = bits_ / 8;
    if (groups > rest.size() / word) {
      return Corrupt("{} values in a buffer of {} bytes", count, rest.size());
    }
    const uint64_t group_bytes = kPackedGroup * word;
    values_.resize(groups * group_bytes);
    for (uint64_t group = 0; group < groups; ++group) {
      if (rest.size() < word) return Corrupt("group {} is missing", group);
      const uint64_t width = Word(rest.data());
      rest = rest.subspan(word);
      if (width > bits_) return Corrupt("values of {} bits packed in {} bits", bits_, width);
      if (rest.size() < 128 * width) {
        return Corrupt("group {} of width {} has {} bytes", group, width, rest.size());
      }
      UnpackGroup(bits_, width, rest.data(), values_.data() + group * group_bytes);
      rest = rest.subspan(128 * width);
    }
    *out = ValueBlock{
        .count = count, .bits_per_item = bits_, .data = Bytes(values_).first(count * word)};
    return Status::OK();
  }

 private:
  uint64_t Word(const uint8_t* at) const {
    switch (bits_) {
      case 8:
        return *at;
      case 16:
        return Load<uint16_t>(at);
      case 32:
        return Load<uint32_t>(at);
      default:
        return Load<uint64_t>(at);
    }
  }

  uint64_t bits_;
  std::vector<uint8_t> values_;
};

}  // namespace

DecoderResult MakeInlineBitpacking(const pb::encodings::InlineBitpacking& node,
                                   const std::string& path) {
  ARROW_RETURN_NOT_OK(CheckUncompressed(node.values(), path));
  const uint64_t bits = node.uncompressed_bits_per_value();
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
    return Error(ErrorKind::kCorrupt, "{}: values of {} bits", path, bits);
  }
  return std::make_unique<InlineBitpacking>(bits, path);
}

}  // namespace sarissa::lance
