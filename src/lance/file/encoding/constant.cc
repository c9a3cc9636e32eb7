#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

class ZerosDecoder final : public ValueDecoder {
 public:
  using ValueDecoder::ValueDecoder;
  uint64_t num_buffers() const override { return 0; }

  // A block of no bits per item and no offsets stands for items that nobody may look at.
  Status Decode(std::span<const Bytes> /*buffers*/, uint64_t count, ValueBlock* out) override {
    *out = ValueBlock{.count = count};
    return Status::OK();
  }
};

}  // namespace

DecoderResult MakeZeros(const std::string& path) {
  return std::make_unique<ZerosDecoder>(path);
}

}  // namespace sarissa::lance
