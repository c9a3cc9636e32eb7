#include "memwal/position_sidecar.h"

#include <cstring>

#include "base/byte_order.h"
#include "base/checksum.h"

namespace sarissa::memwal {
namespace {

constexpr char kMagic[4] = {'S', 'R', 'S', 'P'};
constexpr uint16_t kVersion = 1;
constexpr size_t kHeadBytes = 12;
constexpr size_t kRunBytes = 16;

}  // namespace

std::string EncodePositionSidecar(const std::vector<RowPositions>& runs) {
  std::string out(kMagic, sizeof kMagic);
  AppendLittleEndian(out, kVersion);
  AppendLittleEndian(out, uint16_t{0});
  AppendLittleEndian(out, static_cast<uint32_t>(runs.size()));
  for (const RowPositions& run : runs) {
    AppendLittleEndian(out, run.position.value());
    AppendLittleEndian(out, run.first_row_in_entry);
    AppendLittleEndian(out, run.rows);
  }
  AppendCrc32c(out);
  return out;
}

std::optional<std::vector<RowPositions>> DecodePositionSidecar(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeadBytes + 4 || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return std::nullopt;
  if (LoadLittleEndian<uint16_t>(bytes.data() + 4) != kVersion) return std::nullopt;
  const uint32_t count = LoadLittleEndian<uint32_t>(bytes.data() + 8);
  if (bytes.size() != kHeadBytes + size_t{count} * kRunBytes + 4) return std::nullopt;
  if (!CheckedByCrc32c(bytes)) return std::nullopt;
  std::vector<RowPositions> runs(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* at = bytes.data() + kHeadBytes + size_t{i} * kRunBytes;
    runs[i] = {LogPosition(LoadLittleEndian<uint64_t>(at)), LoadLittleEndian<uint32_t>(at + 8),
               LoadLittleEndian<uint32_t>(at + 12)};
  }
  return runs;
}

}  // namespace sarissa::memwal
