// Versions of the Lance data file format. Tables of the original use 2.1, pylance 14 writes 2.2 by
// default.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sarissa::lance {

struct FileVersion {
  uint16_t major = 2;
  uint16_t minor = 1;
  auto operator<=>(const FileVersion&) const = default;

  std::string ToString() const { return fmt::format("{}.{}", major, minor); }
  // "2.0", "2.1", "2.2"; anything else is kUnsupported.
  static Result<FileVersion> Parse(std::string_view text);
};

inline constexpr FileVersion kFileV20{2, 0};  // its footer says 0.3
inline constexpr FileVersion kFileV21{2, 1};
inline constexpr FileVersion kFileV22{2, 2};

}  // namespace sarissa::lance
