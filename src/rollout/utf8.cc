#include "rollout/utf8.h"

#include <simdjson.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sarissa::rollout {
namespace {

size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  return text.empty() || simdjson::validate_utf8(text.data(), text.size());
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  while (!text.empty()) {
    const size_t length = SequenceLength(static_cast<unsigned char>(text.front()));
    if (length != 0 && length <= text.size() && IsUtf8(text.substr(0, length))) {
      out.append(text.substr(0, length));
      text.remove_prefix(length);
    } else {
      out.append("\xEF\xBF\xBD");
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace sarissa::rollout
