#include "base/uuid.h"

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid.hpp>

namespace sarissa {
namespace {

constexpr char kHex[] = "0123456789abcdef";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool HyphenAt(size_t position) {
  return position == 8 || position == 13 || position == 18 || position == 23;
}

}  // namespace

std::string Uuid::ToString() const {
  std::string text;
  text.reserve(36);
  for (uint8_t byte : bytes) {
    if (HyphenAt(text.size())) text.push_back('-');
    text.push_back(kHex[byte >> 4]);
    text.push_back(kHex[byte & 15]);
  }
  return text;
}

Result<Uuid> Uuid::Parse(std::string_view text) {
  if (text.size() != 36)
    return Error(ErrorKind::kInvalid, "a UUID has 36 characters, '{}' has {}", text, text.size());
  Uuid uuid;
  size_t nibble = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (HyphenAt(i)) {
      if (text[i] != '-') return Error(ErrorKind::kInvalid, "not a UUID: '{}'", text);
      continue;
    }
    const int digit = HexDigit(text[i]);
    if (digit < 0) return Error(ErrorKind::kInvalid, "not a UUID: '{}'", text);
    auto& byte = uuid.bytes[nibble / 2];
    byte = static_cast<uint8_t>((byte << 4) | digit);
    ++nibble;
  }
  return uuid;
}

Uuid Uuid::FromName(std::string_view name) {
  const boost::uuids::name_generator_sha1 generate(boost::uuids::ns::oid());
  const boost::uuids::uuid made = generate(name.data(), name.size());
  Uuid uuid;
  std::copy(made.begin(), made.end(), uuid.bytes.begin());
  return uuid;
}

Uuid Uuid::FromRandom(uint64_t high, uint64_t low) {
  Uuid uuid;
  for (size_t i = 0; i < 8; ++i) {
    uuid.bytes[i] = static_cast<uint8_t>(high >> (8 * i));
    uuid.bytes[8 + i] = static_cast<uint8_t>(low >> (8 * i));
  }
  uuid.bytes[6] = static_cast<uint8_t>((uuid.bytes[6] & 0x0F) | 0x40);
  uuid.bytes[8] = static_cast<uint8_t>((uuid.bytes[8] & 0x3F) | 0x80);
  return uuid;
}

}  // namespace sarissa
