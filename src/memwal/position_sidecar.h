// `_sarissa_positions.bin` of a generation: which log entry each physical row came from. Tail
// cursors stand on it.
//
// A sidecar of ours: both other readers ignore it, and losing it loses no row (rows then count as
// "before everything"). Layout, little-endian: "SRSP" · u16 version 1 · u16 0 · u32 count · count ×
// {u64 log position, u32 first row in the entry, u32 rows} in physical row order · u32 CRC32C of
// all bytes before. An unknown version or a bad checksum means: as if absent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/strong_type.h"

namespace sarissa::memwal {

inline constexpr char kPositionSidecarName[] = "_sarissa_positions.bin";

struct RowPositions {
  LogPosition position;
  uint32_t first_row_in_entry = 0;
  uint32_t rows = 0;
  bool operator==(const RowPositions&) const = default;
};

std::string EncodePositionSidecar(const std::vector<RowPositions>& runs);
// Nothing when the bytes are not a sidecar that we can trust.
std::optional<std::vector<RowPositions>> DecodePositionSidecar(std::span<const uint8_t> bytes);

}  // namespace sarissa::memwal
