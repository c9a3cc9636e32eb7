#include "rollout/float_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>

namespace sarissa::rollout {
namespace {

constexpr std::array<double, 23> kPowersOfTen = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
constexpr int kMaxExactPower = 22;
constexpr int kMaxDigits = 19;  // any 19 digits fit 64 bits

bool IsDigit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

// Whether a non-zero number is smaller than one: tells underflow from overflow.
bool IsBelowOne(std::string_view token) {
  int64_t point = 0;  // digits between the first significant one and the decimal point
  bool fraction = false;
  bool significant = false;
  size_t i = token.starts_with('-') ? 1 : 0;
  for (; i < token.size() && token[i] != 'e' && token[i] != 'E'; ++i) {
    if (token[i] == '.') {
      fraction = true;
      continue;
    }
    significant = significant || token[i] != '0';
    if (fraction && !significant) --point;
    if (!fraction && significant) ++point;
  }
  if (i == token.size()) return point <= 0;
  int64_t exponent = 0;
  const char* start = token.data() + i + 1;
  if (*start == '+') ++start;
  const auto read = std::from_chars(start, token.data() + token.size(), exponent);
  if (read.ec != std::errc()) return *start == '-';
  return exponent <= -point;
}

}  // namespace

bool ParseFloat32(std::string_view token, float& out) {
  const auto read = std::from_chars(token.data(), token.data() + token.size(), out);
  if (read.ec == std::errc()) return std::isfinite(out);
  if (!IsBelowOne(token)) return false;
  out = token.starts_with('-') ? -0.0F : 0.0F;
  return true;
}

const char* ParseFloat32Fast(const char* at, const char* end, float& out) {
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* digits = at;
  uint64_t mantissa = 0;
  while (at != end && IsDigit(*at)) mantissa = mantissa * 10 + static_cast<uint64_t>(*at++ - '0');
  ptrdiff_t count = at - digits;
  if (count == 0 || (*digits == '0' && count > 1)) return nullptr;
  int64_t power = 0;
  if (at != end && *at == '.') {
    const char* fraction = ++at;
    while (at != end && IsDigit(*at)) mantissa = mantissa * 10 + static_cast<uint64_t>(*at++ - '0');
    if (at == fraction) return nullptr;
    power = -(at - fraction);
    count += at - fraction;
  }
  if (count > kMaxDigits) return nullptr;
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool minus = at != end && *at == '-';
    if (at != end && (*at == '-' || *at == '+')) ++at;
    const char* first = at;
    int64_t exponent = 0;
    while (at != end && IsDigit(*at) && at - first < 4) exponent = exponent * 10 + (*at++ - '0');
    if (at == first || (at != end && IsDigit(*at))) return nullptr;
    power += minus ? -exponent : exponent;
  }
  if (power < -kMaxExactPower || power > kMaxExactPower) return nullptr;
  double value = static_cast<double>(mantissa);
  value = power < 0 ? value / kPowersOfTen[static_cast<size_t>(-power)]
                    : value * kPowersOfTen[static_cast<size_t>(power)];
  if (mantissa != 0) {
    if (value < std::numeric_limits<float>::min() || value > 3e38) return nullptr;
    // Two roundings leave `value` within two units of the exact number, so narrowing it is right
    // unless it lies that close to the middle between two floats.
    const uint64_t low = std::bit_cast<uint64_t>(value) & 0x1FFFFFFFU;
    if (low - 0x0FFFFFFCU <= 8) return nullptr;
  }
  out = static_cast<float>(negative ? -value : value);
  return at;
}

void AppendFloat32(float value, std::string& out) {
  if (!std::isfinite(value)) {
    out.append("null");
    return;
  }
  std::array<char, 32> text;
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  std::string_view shortest(text.data(), static_cast<size_t>(written.ptr - text.data()));
  if (shortest.starts_with('-')) {
    out.push_back('-');
    shortest.remove_prefix(1);
  }
  const size_t mark = shortest.find('e');
  std::array<char, 16> digits;
  int count = 0;
  for (const char c : shortest.substr(0, mark)) {
    if (c != '.') digits[static_cast<size_t>(count++)] = c;
  }
  int exponent = 0;
  const char* sign = shortest.data() + mark + 1;
  std::from_chars(*sign == '+' ? sign + 1 : sign, shortest.data() + shortest.size(), exponent);
  const std::string_view all(digits.data(), static_cast<size_t>(count));
  if (exponent < -5 || exponent >= 16) {
    out.append(all.substr(0, 1));
    if (count > 1) out.append(".").append(all.substr(1));
    out.append(exponent < 0 ? "e-" : "e+");
    const auto end = std::to_chars(text.data(), text.data() + text.size(), std::abs(exponent));
    out.append(text.data(), static_cast<size_t>(end.ptr - text.data()));
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(all);
  } else if (count <= exponent + 1) {
    out.append(all).append(static_cast<size_t>(exponent + 1 - count), '0').append(".0");
  } else {
    const auto whole = static_cast<size_t>(exponent + 1);
    out.append(all.substr(0, whole)).append(".").append(all.substr(whole));
  }
}

}  // namespace sarissa::rollout
