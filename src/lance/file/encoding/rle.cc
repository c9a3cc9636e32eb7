#include <cstring>
#include <vector>

#include "lance/file/encoding/load.h"
#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

template <typename T>
void FillRun(uint8_t* to, const uint8_t* value, uint64_t length) {
  const T filler = Load<T>(value);
  for (uint64_t i = 0; i < length; ++i) Store<T>(to + i * sizeof(T), filler);
}

// Run values and, in bytes, run lengths; longer runs repeat the value. In a mini-block chunk the
// two are buffers of their own; a block begins with the u64 byte size of the values.
class RleDecoder final : public ValueDecoder {
 public:
  RleDecoder(uint64_t bits, bool block, std::string path)
      : ValueDecoder(std::move(path)), bits_(bits), block_(block) {}

  uint64_t num_buffers() const override { return block_ ? 1 : 2; }

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    Bytes values = buffers[0];
    Bytes lengths;
    if (block_) {
      const Bytes block = values;
      if (block.size() < 8) return Corrupt("a block of {} bytes", block.size());
      const uint64_t size = Load<uint64_t>(block.data());
      if (size > block.size() - 8) {
        return Corrupt("run values of {} bytes in a block of {}", size, block.size());
      }
      values = block.subspan(8, size);
      lengths = block.subspan(8 + size);
    } else {
      lengths = buffers[1];
    }
    return Expand(values, lengths, count, out);
  }

 private:
  Status Expand(Bytes values, Bytes lengths, uint64_t count, ValueBlock* out) {
    const uint64_t width = bits_ / 8;
    const uint64_t runs = lengths.size();
    if (values.size() / width < runs) {
      return Corrupt("{} run lengths for {} bytes of run values", runs, values.size());
    }
    uint64_t total = 0;
    for (const uint8_t length : lengths) total += length;
    if (total != count) return Corrupt("runs of {} values instead of {}", total, count);
    values_.resize(count * width);
    uint8_t* to = values_.data();
    for (uint64_t run = 0; run < runs; ++run) {
      Fill(to, values.data() + run * width, lengths[run]);
      to += lengths[run] * width;
    }
    *out = ValueBlock{.count = count, .bits_per_item = bits_, .data = Bytes(values_)};
    return Status::OK();
  }

  void Fill(uint8_t* to, const uint8_t* value, uint64_t length) const {
    switch (bits_) {
      case 8:
        std::memset(to, *value, length);
        return;
      case 16:
        return FillRun<uint16_t>(to, value, length);
      case 32:
        return FillRun<uint32_t>(to, value, length);
      case 64:
        return FillRun<uint64_t>(to, value, length);
      default:
        for (uint64_t i = 0; i < length; ++i, to += bits_ / 8) std::memcpy(to, value, bits_ / 8);
    }
  }

  uint64_t bits_;
  bool block_;
  std::vector<uint8_t> values_;
};

DecoderResult Make(const pb::encodings::Rle& node, bool block, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const uint64_t bits, FlatBits(node.values(), path + "/values"));
  ARROW_ASSIGN_OR_RAISE(const uint64_t length, FlatBits(node.run_lengths(), path + "/run_lengths"));
  if (bits % 8 != 0) return Error(ErrorKind::kCorrupt, "{}: run values of {} bits", path, bits);
  if (length != 8) {
    return Error(ErrorKind::kUnsupported, "{}: run lengths of {} bits are not read here", path,
                 length);
  }
  return std::make_unique<RleDecoder>(bits, block, path);
}

}  // namespace

DecoderResult MakeMiniBlockRle(const pb::encodings::Rle& node, const std::string& path) {
  return Make(node, /*block=*/false, path);
}

DecoderResult MakeBlockRle(const pb::encodings::Rle& node, const std::string& path) {
  return Make(node, /*block=*/true, path);
}

}  // namespace sarissa::lance
