#include "memwal/position_sidecar.h"

#include <cstring>

#include "base/checksum.h"

namespace sarissa::memwal {
namespace {

constexpr char kMagic[4] = {'S', 'R', 'S', 'P'};
constexpr uint16_t kVersion = 1;
constexpr size_t kHeadBytes = 12;
constexpr size_t kRunBytes = 16;

template <typename T>
void Put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <typename T>
T Get(const uint8_t* data) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | (static_cast<T>(data[i]) << (8 * i)));
  return value;
}

}  // namespace

std::string EncodePositionSidecar(const std::vector<RowPositions>& runs) {
  std::string out(kMagic, sizeof kMagic);
  Put(out, kVersion);
  Put(out, uint16_t{0});
  Put(out, static_cast<uint32_t>(runs.size()));
  for (const RowPositions& run : runs) {
    Put(out, run.position.value());
    Put(out, run.first_row_in_entry);
    Put(out, run.rows);
  }
  Put(out, Crc32c({reinterpret_cast<const uint8_t*>(out.data()), out.size()}));
  return out;
}

std::optional<std::vector<RowPositions>> DecodePositionSidecar(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeadBytes + 4 || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return std::nullopt;
  if (Get<uint16_t>(bytes.data() + 4) != kVersion) return std::nullopt;
  const uint32_t count = Get<uint32_t>(bytes.data() + 8);
  if (bytes.size() != kHeadBytes + size_t{count} * kRunBytes + 4) return std::nullopt;
  const auto covered = bytes.first(bytes.size() - 4);
  if (Crc32c(covered) != Get<uint32_t>(bytes.data() + covered.size())) return std::nullopt;
  std::vector<RowPositions> runs(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint8_t* at = bytes.data() + kHeadBytes + size_t{i} * kRunBytes;
    runs[i] = {LogPosition(Get<uint64_t>(at)), Get<uint32_t>(at + 8), Get<uint32_t>(at + 12)};
  }
  return runs;
}

}  // namespace sarissa::memwal
