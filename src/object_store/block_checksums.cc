#include "object_store/block_checksums.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "object_store/object_store.h"

namespace sarissa::object_store {
namespace {

constexpr char kMagic[4] = {'S', 'R', 'S', 'C'};
constexpr uint16_t kVersion = 1;
constexpr size_t kHeadBytes = 12;

// Reads front to back; never past the end.
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }

  template <typename T>
  std::optional<T> Number() {
    const auto bytes = Take(sizeof(T));
    if (!bytes) return std::nullopt;
    return LoadLittleEndian<T>(bytes->data());
  }

  std::optional<std::span<const uint8_t>> Take(size_t count) {
    if (count > rest_.size()) return std::nullopt;
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }

 private:
  std::span<const uint8_t> rest_;
};

Result<std::string> DecodeName(Cursor& cursor) {
  const auto length = cursor.Number<uint16_t>();
  const auto bytes = length ? cursor.Take(*length) : std::nullopt;
  if (!bytes) return Error(ErrorKind::kCorrupt, "a file name is cut off");
  std::string name(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  ARROW_RETURN_NOT_OK(WithKind(CheckName(name), ErrorKind::kCorrupt));
  return name;
}

Result<FileChecksums> DecodeFile(const std::string& name, Cursor& cursor) {
  const auto size = cursor.Number<uint64_t>();
  const auto block_bytes = cursor.Number<uint32_t>();
  if (!size || !block_bytes) return Error(ErrorKind::kCorrupt, "file '{}' is cut off", name);
  if (*block_bytes == 0)
    return Error(ErrorKind::kCorrupt, "file '{}' has blocks of no bytes", name);
  const uint64_t count = *size / *block_bytes + (*size % *block_bytes != 0 ? 1 : 0);
  if (count > cursor.left() / sizeof(uint32_t)) {
    return Error(ErrorKind::kCorrupt, "file '{}' of {} bytes has {} blocks, more than are there",
                 name, *size, count);
  }
  FileChecksums file{.size = *size, .block_bytes = *block_bytes, .blocks = {}};
  file.blocks.reserve(count);
  const auto bytes = cursor.Take(count * sizeof(uint32_t));
  for (size_t at = 0; at < bytes->size(); at += sizeof(uint32_t))
    file.blocks.push_back(LoadLittleEndian<uint32_t>(bytes->data() + at));
  return file;
}

}  // namespace

void BlockChecksummer::Append(std::span<const uint8_t> data) {
  while (!data.empty()) {
    const size_t filled = size_ % kChecksumBlockBytes;
    const auto piece = data.first(std::min(data.size(), kChecksumBlockBytes - filled));
    block_crc_ = Crc32c(piece, block_crc_);
    size_ += piece.size();
    data = data.subspan(piece.size());
    if (size_ % kChecksumBlockBytes == 0) {
      full_blocks_.push_back(block_crc_);
      block_crc_ = 0;
    }
  }
}

FileChecksums BlockChecksummer::Current() const {
  FileChecksums file{.size = size_, .block_bytes = kChecksumBlockBytes, .blocks = full_blocks_};
  if (size_ % kChecksumBlockBytes != 0) file.blocks.push_back(block_crc_);
  return file;
}

Result<std::string> EncodeChecksumTable(const ChecksumTable& table) {
  std::string out(kMagic, sizeof kMagic);
  AppendLittleEndian(out, kVersion);
  AppendLittleEndian(out, uint16_t{0});
  AppendLittleEndian(out, static_cast<uint32_t>(table.size()));
  for (const auto& [name, file] : table) {
    ARROW_RETURN_NOT_OK(CheckName(name));
    if (name.size() > std::numeric_limits<uint16_t>::max())
      return Error(ErrorKind::kInvalid, "a file name of {} bytes is too long", name.size());
    AppendLittleEndian(out, static_cast<uint16_t>(name.size()));
    out += name;
    AppendLittleEndian(out, file.size);
    AppendLittleEndian(out, file.block_bytes);
    for (const uint32_t block : file.blocks) AppendLittleEndian(out, block);
  }
  AppendCrc32c(out);
  return out;
}

Result<ChecksumTable> DecodeChecksumTable(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeadBytes || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return Error(ErrorKind::kCorrupt, "{} bytes that are not a checksum sidecar", bytes.size());
  const auto version = LoadLittleEndian<uint16_t>(bytes.data() + sizeof kMagic);
  if (version != kVersion)
    return Error(ErrorKind::kUnsupported, "checksum sidecar version {}", version);
  const auto covered = CheckedByCrc32c(bytes);
  if (!covered || covered->size() < kHeadBytes)
    return Error(ErrorKind::kCorrupt, "the checksum sidecar's own checksum does not fit");

  Cursor cursor(covered->subspan(kHeadBytes));
  const auto count = LoadLittleEndian<uint32_t>(bytes.data() + 8);
  ChecksumTable table;
  for (uint32_t i = 0; i < count; ++i) {
    ARROW_ASSIGN_OR_RAISE(std::string name, DecodeName(cursor));
    ARROW_ASSIGN_OR_RAISE(FileChecksums file, DecodeFile(name, cursor));
    if (!table.emplace(name, std::move(file)).second)
      return Error(ErrorKind::kCorrupt, "file '{}' is there twice", name);
  }
  if (!cursor.empty())
    return Error(ErrorKind::kCorrupt, "{} bytes follow the last file", cursor.left());
  return table;
}

}  // namespace sarissa::object_store
