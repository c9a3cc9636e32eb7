// The bytes of one object of the dirty set.
#include <cstring>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "engine/dirty_set.h"

namespace sarissa::engine {
namespace {

constexpr char kMagic[4] = {'S', 'R', 'S', 'D'};
constexpr uint16_t kVersion = 1;
constexpr uint16_t kSnapshotFlag = 1;
constexpr uint16_t kCompleteFlag = 2;
constexpr size_t kHeadBytes = 12;
constexpr size_t kRecordBytes = 12;  // and the name
constexpr size_t kChecksumBytes = 4;

}  // namespace

std::string EncodeDirtyGroup(const DirtyGroup& group) {
  std::string out(kMagic, sizeof kMagic);
  AppendLittleEndian(out, kVersion);
  AppendLittleEndian(out, static_cast<uint16_t>((group.snapshot ? kSnapshotFlag : 0) |
                                                (group.complete ? kCompleteFlag : 0)));
  AppendLittleEndian(out, static_cast<uint32_t>(group.records.size()));
  for (const DirtyGroup::Record& record : group.records) {
    AppendLittleEndian(out, static_cast<uint16_t>(record.mark ? 1 : 0));
    AppendLittleEndian(out, static_cast<uint64_t>(record.table.created_at_ms));
    AppendLittleEndian(out, static_cast<uint16_t>(record.table.name.size()));
    out += record.table.name;
  }
  AppendCrc32c(out);
  return out;
}

std::optional<DirtyGroup> DecodeDirtyGroup(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeadBytes + kChecksumBytes) return std::nullopt;
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return std::nullopt;
  if (LoadLittleEndian<uint16_t>(bytes.data() + 4) != kVersion) return std::nullopt;
  if (!CheckedByCrc32c(bytes)) return std::nullopt;
  const uint16_t flags = LoadLittleEndian<uint16_t>(bytes.data() + 6);
  const uint32_t count = LoadLittleEndian<uint32_t>(bytes.data() + 8);
  DirtyGroup group;
  group.snapshot = (flags & kSnapshotFlag) != 0;
  group.complete = (flags & kCompleteFlag) != 0;
  std::span<const uint8_t> rest =
      bytes.subspan(kHeadBytes, bytes.size() - kHeadBytes - kChecksumBytes);
  if (size_t{count} > rest.size() / kRecordBytes) return std::nullopt;
  group.records.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (rest.size() < kRecordBytes) return std::nullopt;
    DirtyGroup::Record record;
    record.mark = LoadLittleEndian<uint16_t>(rest.data()) != 0;
    record.table.created_at_ms = static_cast<int64_t>(LoadLittleEndian<uint64_t>(rest.data() + 2));
    const size_t length = LoadLittleEndian<uint16_t>(rest.data() + 10);
    rest = rest.subspan(kRecordBytes);
    if (rest.size() < length) return std::nullopt;
    record.table.name.assign(reinterpret_cast<const char*>(rest.data()), length);
    rest = rest.subspan(length);
    group.records.push_back(std::move(record));
  }
  if (!rest.empty()) return std::nullopt;
  return group;
}

}  // namespace sarissa::engine
