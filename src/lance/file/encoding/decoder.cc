#include "lance/file/encoding/decoder.h"

#include <google/protobuf/unknown_field_set.h>

#include "lance/file/encoding/load.h"
#include "lance/file/encoding/nodes.h"

namespace sarissa::lance {

uint64_t ValueBlock::Offset(uint64_t i) const {
  return offset_bytes == 4 ? Load<uint32_t>(offsets.data() + 4 * i)
                           : Load<uint64_t>(offsets.data() + 8 * i);
}

Status ValueBlock::CheckOffsets(uint64_t first, uint64_t n) const {
  bool descends = false;
  if (offset_bytes == 4) {
    const uint8_t* at = offsets.data() + 4 * first;
    for (uint64_t i = 0; i < n; ++i) {
      descends |= Load<uint32_t>(at + 4 * i) > Load<uint32_t>(at + 4 * i + 4);
    }
  } else {
    const uint8_t* at = offsets.data() + 8 * first;
    for (uint64_t i = 0; i < n; ++i) {
      descends |= Load<uint64_t>(at + 8 * i) > Load<uint64_t>(at + 8 * i + 8);
    }
  }
  if (descends) return Error(ErrorKind::kCorrupt, "value offsets descend");
  if (Offset(first + n) > data.size()) {
    return Error(ErrorKind::kCorrupt, "a value ends at byte {} of a buffer of {} bytes",
                 Offset(first + n), data.size());
  }
  return Status::OK();
}

Bytes ValueBlock::Variable(uint64_t i) const {
  const uint64_t begin = Offset(i);
  return data.subspan(begin, Offset(i + 1) - begin);
}

Bytes ValueBlock::Fixed(uint64_t i) const {
  const uint64_t width = bits_per_item / 8 * items_per_value;
  return data.subspan(i * width, width);
}

std::string NodeName(const Encoding& encoding) {
  if (encoding.compression_case() != Encoding::COMPRESSION_NOT_SET) {
    return encoding.GetDescriptor()->FindFieldByNumber(encoding.compression_case())->name();
  }
  const auto& unknown = encoding.GetReflection()->GetUnknownFields(encoding);
  if (unknown.empty()) return "nothing";
  switch (unknown.field(0).number()) {
    case 14:
      return "range";
    case 15:
      return "delta";
    default:
      return fmt::format("encoding_{}", unknown.field(0).number());
  }
}

Status UnsupportedNode(const Encoding& encoding, const std::string& path) {
  return Error(ErrorKind::kUnsupported, "{}/{}: this encoding is not read here", path,
               NodeName(encoding));
}

Result<uint64_t> FlatBits(const Encoding& encoding, const std::string& path) {
  if (!encoding.has_flat()) return UnsupportedNode(encoding, path);
  ARROW_RETURN_NOT_OK(CheckUncompressed(encoding.flat().data(), path + "/flat"));
  const uint64_t bits = encoding.flat().bits_per_value();
  if (bits == 0 || (bits != 1 && bits % 8 != 0) || bits > (uint64_t{1} << 34)) {
    return Error(ErrorKind::kCorrupt, "{}/flat: {} bits per value", path, bits);
  }
  return bits;
}

Status CheckUncompressed(const pb::encodings::BufferCompression& compression,
                         const std::string& path) {
  if (compression.scheme() == pb::encodings::BufferCompression::UNSPECIFIED) return Status::OK();
  return Error(ErrorKind::kUnsupported, "{}: a buffer compressed on its own is not read here",
               path);
}

Result<uint64_t> PackedBytes(uint64_t count, uint64_t items, uint64_t bits,
                             const std::string& path) {
  uint64_t total = 0;
  if (__builtin_mul_overflow(count, items, &total) || __builtin_mul_overflow(total, bits, &total) ||
      total > (uint64_t{1} << 62)) {
    return Error(ErrorKind::kCorrupt, "{}: {} values of {} items of {} bits", path, count, items,
                 bits);
  }
  return (total + 7) / 8;
}

Result<std::unique_ptr<ValueDecoder>> MakeMiniBlockDecoder(const Encoding& encoding,
                                                           const std::string& path) {
  switch (encoding.compression_case()) {
    case Encoding::kFlat:
      return MakeFlat(encoding, path);
    case Encoding::kVariable:
      return MakeMiniBlockVariable(encoding.variable(), path + "/variable");
    case Encoding::kConstant:
      return MakeZeros(path + "/constant");
    case Encoding::kOutOfLineBitpacking:
      return MakeOutOfLineBitpacking(encoding.out_of_line_bitpacking(),
                                     path + "/out_of_line_bitpacking");
    case Encoding::kInlineBitpacking:
      return MakeInlineBitpacking(encoding.inline_bitpacking(), path + "/inline_bitpacking");
    case Encoding::kFsst: {
      const std::string at = path + "/fsst";
      ARROW_ASSIGN_OR_RAISE(auto values, MakeMiniBlockDecoder(encoding.fsst().values(), at));
      return MakeFsst(encoding.fsst(), std::move(values), at);
    }
    case Encoding::kRle:
      return MakeMiniBlockRle(encoding.rle(), path + "/rle");
    case Encoding::kByteStreamSplit:
      return MakeByteStreamSplit(encoding.byte_stream_split(), path + "/byte_stream_split");
    case Encoding::kGeneral: {
      const std::string at = path + "/general";
      ARROW_ASSIGN_OR_RAISE(auto values, MakeMiniBlockDecoder(encoding.general().values(), at));
      return MakeGeneral(encoding.general(), std::move(values), at);
    }
    case Encoding::kFixedSizeList: {
      const std::string at = path + "/fixed_size_list";
      ARROW_ASSIGN_OR_RAISE(auto values,
                            MakeMiniBlockDecoder(encoding.fixed_size_list().values(), at));
      return MakeFixedSizeList(encoding.fixed_size_list(), std::move(values), at);
    }
    default:
      return UnsupportedNode(encoding, path);
  }
}

Result<std::unique_ptr<ValueDecoder>> MakeBlockDecoder(const Encoding& encoding,
                                                       const std::string& path) {
  switch (encoding.compression_case()) {
    case Encoding::kFlat:
      return MakeFlat(encoding, path);
    case Encoding::kVariable:
      return MakeBlockVariable(encoding.variable(), path + "/variable");
    case Encoding::kOutOfLineBitpacking:
      return MakeOutOfLineBitpacking(encoding.out_of_line_bitpacking(),
                                     path + "/out_of_line_bitpacking");
    case Encoding::kInlineBitpacking:
      return MakeInlineBitpacking(encoding.inline_bitpacking(), path + "/inline_bitpacking");
    case Encoding::kFsst: {
      const std::string at = path + "/fsst";
      ARROW_ASSIGN_OR_RAISE(auto values, MakeBlockDecoder(encoding.fsst().values(), at));
      return MakeFsst(encoding.fsst(), std::move(values), at);
    }
    case Encoding::kRle:
      return MakeBlockRle(encoding.rle(), path + "/rle");
    case Encoding::kGeneral: {
      const std::string at = path + "/general";
      ARROW_ASSIGN_OR_RAISE(auto values, MakeBlockDecoder(encoding.general().values(), at));
      return MakeGeneral(encoding.general(), std::move(values), at);
    }
    default:
      return UnsupportedNode(encoding, path);
  }
}

Result<std::unique_ptr<ItemDecoder>> MakeItemDecoder(const Encoding& encoding,
                                                     const std::string& path) {
  switch (encoding.compression_case()) {
    case Encoding::kVariable:
      return MakeVerbatimItem(encoding.variable(), path + "/variable");
    case Encoding::kFsst: {
      const std::string at = path + "/fsst";
      ARROW_ASSIGN_OR_RAISE(auto values, MakeItemDecoder(encoding.fsst().values(), at));
      return MakeFsstItem(encoding.fsst(), std::move(values), at);
    }
    case Encoding::kGeneral: {
      const std::string at = path + "/general";
      ARROW_ASSIGN_OR_RAISE(auto values, MakeItemDecoder(encoding.general().values(), at));
      return MakeGeneralItem(encoding.general(), std::move(values), at);
    }
    default:
      return UnsupportedNode(encoding, path);
  }
}

}  // namespace sarissa::lance
