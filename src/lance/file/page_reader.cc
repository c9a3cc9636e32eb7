#include "lance/file/page_reader.h"

#include <google/protobuf/unknown_field_set.h>

#include <cstring>

#include "lance/file/constant_reader.h"
#include "lance/file/full_zip_reader.h"
#include "lance/file/mini_block_reader.h"

namespace sarissa::lance {

Result<std::shared_ptr<arrow::Buffer>> PageSource::Read(uint64_t index) const {
  if (index >= page.buffers.size()) {
    return Error(ErrorKind::kCorrupt, "the page has {} buffers; number {} is missing",
                 page.buffers.size(), index);
  }
  return Read(index, 0, page.buffers[index].size);
}

Result<std::shared_ptr<arrow::Buffer>> PageSource::Read(uint64_t index, uint64_t offset,
                                                        uint64_t length) const {
  if (index >= page.buffers.size()) {
    return Error(ErrorKind::kCorrupt, "the page has {} buffers; number {} is missing",
                 page.buffers.size(), index);
  }
  const FileRange& range = page.buffers[index];
  if (offset > range.size || length > range.size - offset) {
    return Error(ErrorKind::kCorrupt, "bytes [{}, +{}) of buffer {}, which has {}", offset, length,
                 index, range.size);
  }
  if (length == 0) return std::make_shared<arrow::Buffer>(nullptr, 0);
  return object.ReadRange(range.offset + offset, length);
}

Result<std::unique_ptr<PageReader>> PageReader::Make(const PageSource& source) {
  pb::encodings::PageLayout layout;
  if (!layout.ParseFromString(source.page.layout)) {
    return Error(ErrorKind::kCorrupt, "the page's layout does not parse");
  }
  switch (layout.layout_case()) {
    case pb::encodings::PageLayout::kMiniBlock:
      return MiniBlockReader::Make(source, layout.mini_block());
    case pb::encodings::PageLayout::kFullZip:
      return FullZipReader::Make(source, layout.full_zip());
    case pb::encodings::PageLayout::kConstant:
      return ConstantReader::Make(source, layout.constant());
    case pb::encodings::PageLayout::kBlob:
      return Error(ErrorKind::kUnsupported, "blob: this layout is not read here");
    case pb::encodings::PageLayout::LAYOUT_NOT_SET:
      break;
  }
  const auto& unknown = layout.GetReflection()->GetUnknownFields(layout);
  if (unknown.empty()) return Error(ErrorKind::kCorrupt, "the page's layout is empty");
  const int number = unknown.field(0).number();
  return Error(ErrorKind::kUnsupported, "{}: this layout is not read here",
               number == 5 ? std::string("sparse") : fmt::format("layout_{}", number));
}

Status CopyLevels(Bytes plain, uint64_t count, uint16_t max, std::vector<uint16_t>* out) {
  if (plain.size() / 2 < count) {
    return Error(ErrorKind::kCorrupt, "{} levels in {} bytes", count, plain.size());
  }
  out->resize(count);
  if (count > 0) std::memcpy(out->data(), plain.data(), 2 * count);
  if (!AllWithin(*out, max)) {
    return Error(ErrorKind::kCorrupt, "level {} where {} is the highest", MaxLevel(*out), max);
  }
  return Status::OK();
}

Status DecodeLevels(ValueDecoder* decoder, Bytes block, uint64_t count, uint16_t max,
                    std::vector<uint16_t>* out) {
  ValueBlock levels;
  ARROW_RETURN_NOT_OK(decoder->Decode(std::span<const Bytes>(&block, 1), count, &levels));
  if (levels.bits_per_item != 16 || levels.items_per_value != 1) {
    return Error(ErrorKind::kCorrupt, "levels of {} bits", levels.bits_per_item);
  }
  return CopyLevels(levels.data, count, max, out);
}

}  // namespace sarissa::lance
