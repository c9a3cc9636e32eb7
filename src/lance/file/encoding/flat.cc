#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

class FlatDecoder final : public ValueDecoder {
 public:
  FlatDecoder(uint64_t bits, std::string path) : ValueDecoder(std::move(path)), bits_(bits) {}

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    ARROW_ASSIGN_OR_RAISE(const uint64_t bytes, PackedBytes(count, 1, bits_, path()));
    if (bytes > buffers[0].size()) {
      return Corrupt("{} values of {} bits in a buffer of {} bytes", count, bits_,
                     buffers[0].size());
    }
    *out = ValueBlock{.count = count, .bits_per_item = bits_, .data = buffers[0].first(bytes)};
    return Status::OK();
  }

 private:
  uint64_t bits_;
};

}  // namespace

DecoderResult MakeFlat(const Encoding& encoding, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const uint64_t bits, FlatBits(encoding, path));
  return std::make_unique<FlatDecoder>(bits, path + "/flat");
}

}  // namespace sarissa::lance
