#include "rollout/base64.h"

#include <algorithm>
#include <array>

namespace sarissa::rollout {
namespace {

constexpr uint32_t kBad = 1U << 31;

// kSextets[k][c] is the value of character c at place k of a group, already shifted.
constexpr std::array<std::array<uint32_t, 256>, 4> MakeSextets() {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (size_t place = 0; place < 4; ++place) {
    tables[place].fill(kBad);
    for (uint32_t i = 0; i < 64; ++i) {
      tables[place][static_cast<unsigned char>(kAlphabet[i])] = i << (18 - 6 * place);
    }
  }
  return tables;
}

constexpr std::array<std::array<uint32_t, 256>, 4> kSextets = MakeSextets();

size_t Padding(std::string_view text) {
  if (text.ends_with("==")) return 2;
  return text.ends_with('=') ? 1 : 0;
}

Status BadCharacter(std::string_view text) {
  const auto bad = std::find_if(text.begin(), text.end(), [](char c) {
    return kSextets[0][static_cast<unsigned char>(c)] == kBad;
  });
  return Error(ErrorKind::kInvalid, "invalid base64: bad character at offset {}",
               bad - text.begin());
}

}  // namespace

Result<size_t> Base64DecodedSize(std::string_view text) {
  if (text.size() % 4 != 0) {
    return Error(ErrorKind::kInvalid,
                 "invalid base64: length {} is not a multiple of 4 (padding is required)",
                 text.size());
  }
  return text.size() / 4 * 3 - Padding(text);
}

Status DecodeBase64(std::string_view text, uint8_t* out) {
  if (text.empty()) return Status::OK();
  const size_t padding = Padding(text);
  const auto* in = reinterpret_cast<const unsigned char*>(text.data());
  const auto* whole_end = in + (padding == 0 ? text.size() : text.size() - 4);
  uint32_t seen = 0;
  for (; in != whole_end; in += 4, out += 3) {
    const uint32_t bits =
        kSextets[0][in[0]] | kSextets[1][in[1]] | kSextets[2][in[2]] | kSextets[3][in[3]];
    seen |= bits;
    out[0] = static_cast<uint8_t>(bits >> 16);
    out[1] = static_cast<uint8_t>(bits >> 8);
    out[2] = static_cast<uint8_t>(bits);
  }
  if (padding != 0) {
    uint32_t bits = kSextets[0][in[0]] | kSextets[1][in[1]];
    if (padding == 1) bits |= kSextets[2][in[2]];
    seen |= bits;
    const uint32_t unused = padding == 1 ? 0xFF : 0xFFFF;
    if ((seen & kBad) == 0 && (bits & unused) != 0) {
      return Error(ErrorKind::kInvalid,
                   "invalid base64: unused bits before the padding are not zero");
    }
    out[0] = static_cast<uint8_t>(bits >> 16);
    if (padding == 1) out[1] = static_cast<uint8_t>(bits >> 8);
  }
  if ((seen & kBad) != 0) return BadCharacter(text);
  return Status::OK();
}

}  // namespace sarissa::rollout
