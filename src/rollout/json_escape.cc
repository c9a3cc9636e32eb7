#include "rollout/json_escape.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rollout/json_scan.h"
#include "rollout/utf8.h"

namespace sarissa::rollout {
namespace {

struct Escape {
  std::array<char, 6> text{};
  uint8_t length = 0;
};

constexpr std::array<Escape, 128> MakeEscapes() {
  std::array<Escape, 128> table{};
  constexpr char kHex[] = "0123456789abcdef";
  for (size_t c = 0; c < 0x20; ++c) {
    table[c] = Escape{{'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]}, 6};
  }
  table['\b'] = Escape{{'\\', 'b'}, 2};
  table['\f'] = Escape{{'\\', 'f'}, 2};
  table['\n'] = Escape{{'\\', 'n'}, 2};
  table['\r'] = Escape{{'\\', 'r'}, 2};
  table['\t'] = Escape{{'\\', 't'}, 2};
  table['"'] = Escape{{'\\', '"'}, 2};
  table['\\'] = Escape{{'\\', '\\'}, 2};
  return table;
}

constexpr std::array<Escape, 128> kEscapes = MakeEscapes();

bool IsAscii(std::string_view text) {
  uint64_t bits = 0;
  const char* at = text.data();
  const char* end = at + text.size();
  for (; end - at >= 8; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    bits |= word;
  }
  for (; at != end; ++at) bits |= static_cast<unsigned char>(*at);
  return (bits & 0x8080808080808080ULL) == 0;
}

void AppendEscaped(std::string_view text, std::string& out) {
  out.push_back('"');
  const char* run = text.data();
  const char* end = run + text.size();
  while (true) {
    const char* special = FindStringSpecial(run, end);
    out.append(run, static_cast<size_t>(special - run));
    if (special == end) break;
    const Escape& escape = kEscapes[static_cast<unsigned char>(*special)];
    out.append(escape.text.data(), escape.length);
    run = special + 1;
  }
  out.push_back('"');
}

}  // namespace

void AppendJsonString(std::string_view text, std::string& out) {
  if (IsAscii(text) || IsUtf8(text)) {
    AppendEscaped(text, out);
  } else {
    AppendEscaped(ReplaceInvalidUtf8(text), out);
  }
}

}  // namespace sarissa::rollout
