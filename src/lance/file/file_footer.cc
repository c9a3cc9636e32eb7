#include "lance/file/file_footer.h"

#include <algorithm>
#include <cstring>

#include "lance/file/encoding/load.h"

namespace sarissa::lance {
namespace {

constexpr uint64_t kFooterBytes = 40;
constexpr uint64_t kTailBytes = 64 << 10;
// Metadata up to this size is kept with the open file.
constexpr uint64_t kKeptMetadataBytes = 64 << 10;
constexpr uint64_t kMaxDescriptorBytes = 64 << 20;

// The last bytes of a file; reads what lies before them only when asked to.
class FileTail {
 public:
  static Result<FileTail> Read(const object_store::ObjectReader& object) {
    const uint64_t size = object.size();
    if (size < kFooterBytes) {
      return Error(ErrorKind::kCorrupt, "{} bytes are too few for a Lance file", size);
    }
    const uint64_t length = std::min(size, kTailBytes);
    ARROW_ASSIGN_OR_RAISE(auto bytes, object.ReadRange(size - length, length));
    return FileTail(object, size - length, std::move(bytes));
  }

  const uint8_t* footer() const { return bytes_->data() + bytes_->size() - kFooterBytes; }

  Result<std::shared_ptr<arrow::Buffer>> Range(const char* what, uint64_t offset,
                                               uint64_t length) const {
    if (offset > object_.size() || length > object_.size() - offset) {
      return Error(ErrorKind::kCorrupt, "{} at {} of {} bytes lies outside the file of {} bytes",
                   what, offset, length, object_.size());
    }
    if (offset < start_) return object_.ReadRange(offset, length);
    return arrow::SliceBuffer(bytes_, static_cast<int64_t>(offset - start_),
                              static_cast<int64_t>(length));
  }

 private:
  FileTail(const object_store::ObjectReader& object, uint64_t start,
           std::shared_ptr<arrow::Buffer> bytes)
      : object_(object), start_(start), bytes_(std::move(bytes)) {}

  const object_store::ObjectReader& object_;
  uint64_t start_;
  std::shared_ptr<arrow::Buffer> bytes_;
};

Result<FileVersion> VersionOf(const uint8_t* footer) {
  const FileVersion version{Load<uint16_t>(footer + 32), Load<uint16_t>(footer + 34)};
  if (version == FileVersion{0, 3} || version == kFileV20) {
    return Error(ErrorKind::kUnsupported, "Lance file version 2.0 is not read here");
  }
  if (version != kFileV21 && version != kFileV22) {
    return Error(ErrorKind::kUnsupported, "Lance file version {} is not read here",
                 version.ToString());
  }
  return version;
}

Result<std::vector<FileRange>> ReadTable(const FileTail& tail, const char* what, uint64_t position,
                                         uint64_t entries, uint64_t file_size) {
  ARROW_ASSIGN_OR_RAISE(auto bytes, tail.Range(what, position, 16 * entries));
  std::vector<FileRange> ranges(entries);
  for (uint64_t i = 0; i < entries; ++i) {
    ranges[i] = {Load<uint64_t>(bytes->data() + 16 * i),
                 Load<uint64_t>(bytes->data() + 16 * i + 8)};
    if (ranges[i].offset > file_size || ranges[i].size > file_size - ranges[i].offset) {
      return Error(ErrorKind::kCorrupt, "{}: entry {} at {} of {} bytes lies outside the file",
                   what, i, ranges[i].offset, ranges[i].size);
    }
  }
  return ranges;
}

}  // namespace

Result<FileFooter> ReadFooter(const object_store::ObjectReader& object) {
  ARROW_ASSIGN_OR_RAISE(const FileTail tail, FileTail::Read(object));
  const uint8_t* at = tail.footer();
  if (std::memcmp(at + 36, "LANC", 4) != 0) {
    return Error(ErrorKind::kCorrupt, "the file does not end with LANC");
  }
  FileFooter footer;
  ARROW_ASSIGN_OR_RAISE(footer.version, VersionOf(at));
  const uint64_t num_globals = Load<uint32_t>(at + 24);
  const uint64_t num_columns = Load<uint32_t>(at + 28);
  if (num_globals == 0) return Error(ErrorKind::kCorrupt, "the file has no descriptor");
  ARROW_ASSIGN_OR_RAISE(
      const auto globals,
      ReadTable(tail, "global buffer table", Load<uint64_t>(at + 16), num_globals, object.size()));
  ARROW_ASSIGN_OR_RAISE(
      footer.column_metadata,
      ReadTable(tail, "column table", Load<uint64_t>(at + 8), num_columns, object.size()));

  if (globals[0].size > kMaxDescriptorBytes) {
    return Error(ErrorKind::kCorrupt, "a file descriptor of {} bytes", globals[0].size);
  }
  ARROW_ASSIGN_OR_RAISE(auto descriptor,
                        tail.Range("file descriptor", globals[0].offset, globals[0].size));
  footer.descriptor_bytes = descriptor->ToString();

  uint64_t total = 0;
  for (const FileRange& range : footer.column_metadata) {
    total += range.size;
    if (range.size > kKeptMetadataBytes || total > kKeptMetadataBytes) return footer;
  }
  footer.metadata_bytes.reserve(total);
  for (const FileRange& range : footer.column_metadata) {
    ARROW_ASSIGN_OR_RAISE(auto bytes, tail.Range("column metadata", range.offset, range.size));
    footer.metadata_bytes.append(reinterpret_cast<const char*>(bytes->data()),
                                 static_cast<size_t>(bytes->size()));
  }
  return footer;
}

}  // namespace sarissa::lance
