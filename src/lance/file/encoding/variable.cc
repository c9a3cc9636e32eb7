#include "lance/file/encoding/load.h"
#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

Result<uint32_t> OffsetBytes(const pb::encodings::Variable& node, const std::string& path) {
  ARROW_RETURN_NOT_OK(CheckUncompressed(node.values(), path));
  ARROW_ASSIGN_OR_RAISE(const uint64_t bits, FlatBits(node.offsets(), path + "/offsets"));
  if (bits != 32 && bits != 64) {
    return Error(ErrorKind::kCorrupt, "{}: offsets of {} bits", path, bits);
  }
  return static_cast<uint32_t>(bits / 8);
}

// count + 1 offsets from the start of this buffer, then the bytes.
class MiniBlockVariable final : public ValueDecoder {
 public:
  MiniBlockVariable(uint32_t width, std::string path)
      : ValueDecoder(std::move(path)), width_(width) {}

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    const Bytes buffer = buffers[0];
    ARROW_ASSIGN_OR_RAISE(const uint64_t head, PackedBytes(count + 1, 8, width_, path()));
    if (head > buffer.size()) {
      return Corrupt("{} offsets in a buffer of {} bytes", count + 1, buffer.size());
    }
    *out = ValueBlock{
        .count = count, .data = buffer, .offsets = buffer.first(head), .offset_bytes = width_};
    return Status::OK();
  }

 private:
  uint32_t width_;
};

// Bits of an offset, start of the bytes, count + 1 offsets from that start, the bytes. The two
// heads are as wide as an offset.
class BlockVariable final : public ValueDecoder {
 public:
  BlockVariable(uint32_t width, std::string path) : ValueDecoder(std::move(path)), width_(width) {}

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    const Bytes buffer = buffers[0];
    ARROW_ASSIGN_OR_RAISE(const uint64_t table, PackedBytes(count + 1, 8, width_, path()));
    const uint64_t head = 2 * uint64_t{width_};
    if (buffer.size() < head || table > buffer.size() - head) {
      return Corrupt("{} offsets in a block of {} bytes", count + 1, buffer.size());
    }
    const uint64_t bits =
        width_ == 4 ? Load<uint32_t>(buffer.data()) : Load<uint64_t>(buffer.data());
    const uint64_t start =
        width_ == 4 ? Load<uint32_t>(buffer.data() + 4) : Load<uint64_t>(buffer.data() + 8);
    if (bits != 8 * uint64_t{width_} || start < head + table || start > buffer.size()) {
      return Corrupt("a block head of {} bits and start {} in {} bytes", bits, start,
                     buffer.size());
    }
    *out = ValueBlock{.count = count,
                      .data = buffer.subspan(start),
                      .offsets = buffer.subspan(head, table),
                      .offset_bytes = width_};
    return Status::OK();
  }

 private:
  uint32_t width_;
};

class VerbatimItem final : public ItemDecoder {
 public:
  Result<Bytes> Decode(Bytes stored) override { return stored; }
  bool verbatim() const override { return true; }
};

}  // namespace

DecoderResult MakeMiniBlockVariable(const pb::encodings::Variable& node, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const uint32_t width, OffsetBytes(node, path));
  return std::make_unique<MiniBlockVariable>(width, path);
}

DecoderResult MakeBlockVariable(const pb::encodings::Variable& node, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const uint32_t width, OffsetBytes(node, path));
  return std::make_unique<BlockVariable>(width, path);
}

ItemDecoderResult MakeVerbatimItem(const pb::encodings::Variable& node, const std::string& path) {
  ARROW_RETURN_NOT_OK(CheckUncompressed(node.values(), path));
  return std::make_unique<VerbatimItem>();
}

}  // namespace sarissa::lance
