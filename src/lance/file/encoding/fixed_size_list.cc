#include <vector>

#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

// The items of all values one after the other; with validity a first buffer of one bit per item.
class FixedSizeListDecoder final : public ValueDecoder {
 public:
  FixedSizeListDecoder(uint64_t items, bool has_validity, std::unique_ptr<ValueDecoder> values,
                       std::string path)
      : ValueDecoder(std::move(path)),
        items_(items),
        has_validity_(has_validity),
        values_(std::move(values)) {}

  uint64_t num_buffers() const override { return values_->num_buffers() + (has_validity_ ? 1 : 0); }

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    ARROW_ASSIGN_OR_RAISE(const uint64_t bits, PackedBytes(count, items_, 8, path()));
    Bytes validity;
    if (has_validity_) {
      const uint64_t bytes = (bits + 7) / 8;
      if (bytes > buffers[0].size()) {
        return Corrupt("validity of {} items in {} bytes", bits, buffers[0].size());
      }
      validity = buffers[0].first(bytes);
      buffers = buffers.subspan(1);
    }
    ARROW_RETURN_NOT_OK(values_->Decode(buffers, count * items_, out));
    if (out->items_per_value != 1 || out->offset_bytes != 0) {
      return Error(ErrorKind::kUnsupported, "{}: a list of lists or of strings is not read here",
                   path());
    }
    out->count = count;
    out->items_per_value = items_;
    out->item_validity = validity;
    return Status::OK();
  }

 private:
  uint64_t items_;
  bool has_validity_;
  std::unique_ptr<ValueDecoder> values_;
};

}  // namespace

DecoderResult MakeFixedSizeList(const pb::encodings::FixedSizeList& node,
                                std::unique_ptr<ValueDecoder> values, const std::string& path) {
  if (node.items_per_value() == 0 || node.items_per_value() > INT32_MAX) {
    return Error(ErrorKind::kCorrupt, "{}: {} items per value", path, node.items_per_value());
  }
  return std::make_unique<FixedSizeListDecoder>(node.items_per_value(), node.has_validity(),
                                                std::move(values), path);
}

}  // namespace sarissa::lance
