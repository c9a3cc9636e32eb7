#include <lz4.h>
#include <zstd.h>

#include <climits>
#include <vector>

#include "lance/file/encoding/load.h"
#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {
namespace {

constexpr uint32_t kZstdMagic = 0xFD2FB528;
// What a byte can at most stand for: a length byte of 255 in LZ4, a run block (4 bytes for 128 KiB)
// in zstd. A size beyond that is a lie, and is refused before it is allocated.
constexpr uint64_t kMaxLz4Ratio = 255;
constexpr uint64_t kMaxZstdRatio = 32768;

struct ZstdFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// u32 raw size and an LZ4 block, or u64 raw size and a zstd frame. Old files hold a bare zstd
// frame.
class Decompressor {
 public:
  Decompressor(pb::encodings::BufferCompression::Scheme scheme, std::string path)
      : scheme_(scheme), path_(std::move(path)) {}

  // A view of this decompressor's memory, good until the next call.
  Result<Bytes> Decompress(Bytes stored) {
    if (stored.empty()) return Bytes();
    return scheme_ == pb::encodings::BufferCompression::LZ4 ? Lz4(stored) : Zstd(stored);
  }

 private:
  template <typename... Args>
  Status Corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(ErrorKind::kCorrupt,
                     path_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  Result<Bytes> Lz4(Bytes stored) {
    if (stored.size() < 4) return Corrupt("{} bytes of LZ4", stored.size());
    const uint64_t raw = Load<uint32_t>(stored.data());
    stored = stored.subspan(4);
    if (raw > INT_MAX || stored.size() > INT_MAX || raw > stored.size() * kMaxLz4Ratio) {
      return Corrupt("{} bytes of LZ4 cannot hold {} bytes", stored.size(), raw);
    }
    raw_.resize(raw);
    const int got = LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()),
                                        reinterpret_cast<char*>(raw_.data()),
                                        static_cast<int>(stored.size()), static_cast<int>(raw));
    if (got < 0 || static_cast<uint64_t>(got) != raw) {
      return Corrupt("the LZ4 block of {} bytes does not give {} bytes", stored.size(), raw);
    }
    return Bytes(raw_);
  }

  Result<Bytes> Zstd(Bytes stored) {
    uint64_t raw = 0;
    const bool bare = stored.size() >= 4 && Load<uint32_t>(stored.data()) == kZstdMagic;
    if (bare) {
      raw = ZSTD_getFrameContentSize(stored.data(), stored.size());
      if (raw == ZSTD_CONTENTSIZE_UNKNOWN || raw == ZSTD_CONTENTSIZE_ERROR) {
        return Corrupt("a zstd frame without its size");
      }
    } else {
      if (stored.size() < 8) return Corrupt("{} bytes of zstd", stored.size());
      raw = Load<uint64_t>(stored.data());
      stored = stored.subspan(8);
    }
    if (raw / kMaxZstdRatio > stored.size()) {
      return Corrupt("{} bytes of zstd cannot hold {} bytes", stored.size(), raw);
    }
    if (context_ == nullptr) context_.reset(ZSTD_createDCtx());
    if (context_ == nullptr) return Error(ErrorKind::kOverloaded, "no memory for zstd");
    raw_.resize(raw);
    const size_t got =
        ZSTD_decompressDCtx(context_.get(), raw_.data(), raw_.size(), stored.data(), stored.size());
    if (ZSTD_isError(got) != 0) return Corrupt("zstd: {}", ZSTD_getErrorName(got));
    if (got != raw) return Corrupt("zstd gave {} bytes instead of {}", got, raw);
    return Bytes(raw_);
  }

  pb::encodings::BufferCompression::Scheme scheme_;
  std::string path_;
  std::unique_ptr<ZSTD_DCtx, ZstdFree> context_;
  std::vector<uint8_t> raw_;
};

// Of a chunk's buffers only the first is compressed.
class GeneralDecoder final : public ValueDecoder {
 public:
  GeneralDecoder(Decompressor decompressor, std::unique_ptr<ValueDecoder> values, std::string path)
      : ValueDecoder(std::move(path)),
        decompressor_(std::move(decompressor)),
        values_(std::move(values)) {}

  uint64_t num_buffers() const override { return values_->num_buffers(); }

  Status Decode(std::span<const Bytes> buffers, uint64_t count, ValueBlock* out) override {
    buffers_.assign(buffers.begin(), buffers.end());
    ARROW_ASSIGN_OR_RAISE(buffers_[0], decompressor_.Decompress(buffers_[0]));
    return values_->Decode(buffers_, count, out);
  }

 private:
  Decompressor decompressor_;
  std::unique_ptr<ValueDecoder> values_;
  std::vector<Bytes> buffers_;
};

class GeneralItem final : public ItemDecoder {
 public:
  GeneralItem(Decompressor decompressor, std::unique_ptr<ItemDecoder> values)
      : decompressor_(std::move(decompressor)), values_(std::move(values)) {}

  Result<Bytes> Decode(Bytes stored) override {
    ARROW_ASSIGN_OR_RAISE(const Bytes raw, decompressor_.Decompress(stored));
    return values_->Decode(raw);
  }

 private:
  Decompressor decompressor_;
  std::unique_ptr<ItemDecoder> values_;
};

Result<Decompressor> MakeDecompressor(const pb::encodings::General& node, const std::string& path) {
  const auto scheme = node.compression().scheme();
  if (scheme != pb::encodings::BufferCompression::LZ4 &&
      scheme != pb::encodings::BufferCompression::ZSTD) {
    return Error(ErrorKind::kUnsupported, "{}: compression scheme {} is not read here", path,
                 static_cast<int>(scheme));
  }
  return Decompressor(scheme, path);
}

}  // namespace

DecoderResult MakeGeneral(const pb::encodings::General& node, std::unique_ptr<ValueDecoder> values,
                          const std::string& path) {
  if (values->num_buffers() == 0) {
    return Error(ErrorKind::kCorrupt, "{}: nothing to decompress", path);
  }
  ARROW_ASSIGN_OR_RAISE(auto decompressor, MakeDecompressor(node, path));
  return std::make_unique<GeneralDecoder>(std::move(decompressor), std::move(values), path);
}

ItemDecoderResult MakeGeneralItem(const pb::encodings::General& node,
                                  std::unique_ptr<ItemDecoder> values, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto decompressor, MakeDecompressor(node, path));
  return std::make_unique<GeneralItem>(std::move(decompressor), std::move(values));
}

}  // namespace sarissa::lance
