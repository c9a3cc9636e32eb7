#include "lance/file/container_writer.h"
#include "lance/file/stable_bytes.h"

#include <array>
#include <bit>
#include <utility>

namespace sarissa::lance {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and so are our copies");

constexpr uint64_t kAlignment = 64;
constexpr char kMagic[] = "LANC";
constexpr char kPageLayoutUrl[] = "/lance.encodings21.PageLayout";
constexpr char kColumnEncodingUrl[] = "/lance.encodings.ColumnEncoding";
// ColumnEncoding{values: {}}
constexpr std::string_view kColumnEncodingValue("\x0a\x00", 2);

void SetDirect(std::string_view type_url, std::string value, pb::file::Encoding* encoding) {
  pb::file::Any any;
  any.set_type_url(std::string(type_url));
  any.set_value(std::move(value));
  encoding->mutable_direct()->set_encoding(any.SerializeAsString());
}

}  // namespace

ContainerWriter::ContainerWriter(std::unique_ptr<object_store::ObjectWriter> sink,
                                 FileVersion version, int num_columns)
    : sink_(std::move(sink)),
      version_(version),
      block_(std::make_unique_for_overwrite<uint8_t[]>(kBlockBytes)),
      columns_(static_cast<size_t>(num_columns)) {
  for (Column& column : columns_) {
    SetDirect(kColumnEncodingUrl, std::string(kColumnEncodingValue),
              column.metadata.mutable_encoding());
  }
}

Status ContainerWriter::BeginBuffer() {
  static constexpr std::array<uint8_t, kAlignment> kZeros{};
  const uint64_t gap = (kAlignment - position_ % kAlignment) % kAlignment;
  ARROW_RETURN_NOT_OK(Append(kZeros.data(), gap));
  buffer_start_ = position_;
  return Status::OK();
}

Status ContainerWriter::AppendSlow(const void* data, size_t size) {
  ARROW_RETURN_NOT_OK(FlushBlock());
  if (size <= kBlockBytes) return Append(data, size);
  ARROW_RETURN_NOT_OK(sink_->Append({static_cast<const uint8_t*>(data), size}));
  position_ += size;
  return Status::OK();
}

Status ContainerWriter::AppendBuffer(const arrow::Buffer& buffer) {
  ARROW_RETURN_NOT_OK(FlushBlock());
  ARROW_RETURN_NOT_OK(sink_->AppendBuffer(buffer));
  position_ += static_cast<uint64_t>(buffer.size());
  return Status::OK();
}

Status ContainerWriter::FlushBlock() {
  if (block_size_ == 0) return Status::OK();
  ARROW_RETURN_NOT_OK(sink_->Append({block_.get(), block_size_}));
  block_size_ = 0;
  return Status::OK();
}

Result<BufferPlace> ContainerWriter::WriteBuffer(const void* data, size_t size) {
  ARROW_RETURN_NOT_OK(BeginBuffer());
  ARROW_RETURN_NOT_OK(Append(data, size));
  return EndBuffer();
}

Status ContainerWriter::AddPage(int column, const std::vector<BufferPlace>& buffers, uint64_t rows,
                                const pb::encodings::PageLayout& layout) {
  Column& target = columns_[static_cast<size_t>(column)];
  pb::file::ColumnMetadata::Page* page = target.metadata.add_pages();
  for (const BufferPlace& place : buffers) {
    page->add_buffer_offsets(place.offset);
    page->add_buffer_sizes(place.size);
  }
  page->set_length(rows);
  page->set_priority(target.rows);
  SetDirect(kPageLayoutUrl, layout.SerializeAsString(), page->mutable_encoding());
  target.rows += rows;
  return Status::OK();
}

Status ContainerWriter::AppendLittleEndian(uint64_t value, int bytes) {
  return Append(&value, static_cast<size_t>(bytes));
}

Status ContainerWriter::AppendPlaces(const std::vector<BufferPlace>& places) {
  for (const BufferPlace& place : places) {
    ARROW_RETURN_NOT_OK(AppendLittleEndian(place.offset, 8));
    ARROW_RETURN_NOT_OK(AppendLittleEndian(place.size, 8));
  }
  return Status::OK();
}

Result<uint64_t> ContainerWriter::Finish(const pb::file::FileDescriptor& descriptor,
                                         object_store::PutMode mode) {
  const std::string descriptor_bytes = StableBytes(descriptor);
  ARROW_ASSIGN_OR_RAISE(BufferPlace global,
                        WriteBuffer(descriptor_bytes.data(), descriptor_bytes.size()));
  const uint64_t metadata_start = position_;
  std::vector<BufferPlace> metadata;
  for (const Column& column : columns_) {
    const std::string bytes = StableBytes(column.metadata);
    metadata.push_back({position_, bytes.size()});
    ARROW_RETURN_NOT_OK(Append(bytes.data(), bytes.size()));
  }
  const uint64_t column_table = position_;
  ARROW_RETURN_NOT_OK(AppendPlaces(metadata));
  const uint64_t global_table = position_;
  ARROW_RETURN_NOT_OK(AppendPlaces({global}));
  for (uint64_t start : {metadata_start, column_table, global_table}) {
    ARROW_RETURN_NOT_OK(AppendLittleEndian(start, 8));
  }
  ARROW_RETURN_NOT_OK(AppendLittleEndian(1, 4));
  ARROW_RETURN_NOT_OK(AppendLittleEndian(columns_.size(), 4));
  ARROW_RETURN_NOT_OK(AppendLittleEndian(version_.major, 2));
  ARROW_RETURN_NOT_OK(AppendLittleEndian(version_.minor, 2));
  ARROW_RETURN_NOT_OK(Append(kMagic, 4));
  ARROW_RETURN_NOT_OK(FlushBlock());
  ARROW_RETURN_NOT_OK(sink_->Finish(mode));
  return position_;
}

}  // namespace sarissa::lance
