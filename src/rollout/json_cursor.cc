#include "rollout/json_cursor.h"

#include <cstddef>

#include "rollout/json_scan.h"

namespace sarissa::rollout {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

void AppendUtf8(uint32_t code_point, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace

bool JsonCursor::TakeLiteral(std::string_view literal) {
  SkipSpace();
  if (static_cast<size_t>(end_ - at_) < literal.size()) return false;
  if (std::string_view(at_, literal.size()) != literal) return false;
  at_ += literal.size();
  return true;
}

bool JsonCursor::Enter() {
  if (depth_ <= 0) return Fail("nested deeper than 64 levels");
  --depth_;
  return true;
}

bool JsonCursor::ReadString(std::string_view& out, std::string& scratch) {
  if (!Take('"')) return Fail("expected a string");
  const char* run = at_;
  at_ = FindStringSpecial(at_, end_);
  if (at_ != end_ && *at_ == '"') {
    out = std::string_view(run, static_cast<size_t>(at_ - run));
    ++at_;
    return true;
  }
  scratch.clear();
  while (true) {
    scratch.append(run, static_cast<size_t>(at_ - run));
    if (at_ == end_) return Fail("unterminated string");
    const char c = *at_;
    if (c == '"') break;
    if (c != '\\') return Fail("unescaped control character in a string");
    ++at_;
    uint32_t code_point = 0;
    if (!ReadEscape(code_point)) return false;
    AppendUtf8(code_point, scratch);
    run = at_;
    at_ = FindStringSpecial(at_, end_);
  }
  ++at_;
  out = scratch;
  return true;
}

bool JsonCursor::SkipString() {
  ++at_;
  while (true) {
    at_ = FindStringSpecial(at_, end_);
    if (at_ == end_) return Fail("unterminated string");
    const char c = *at_++;
    if (c == '"') return true;
    if (c != '\\') return Fail("unescaped control character in a string");
    uint32_t code_point = 0;
    if (!ReadEscape(code_point)) return false;
  }
}

bool JsonCursor::ReadHex4(uint32_t& value) {
  if (end_ - at_ < 4) return Fail("malformed \\u escape");
  value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = *at_++;
    uint32_t digit = 0;
    if (IsDigit(c)) {
      digit = static_cast<uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<uint32_t>(c - 'A' + 10);
    } else {
      return Fail("malformed \\u escape");
    }
    value = value * 16 + digit;
  }
  return true;
}

bool JsonCursor::ReadEscape(uint32_t& code_point) {
  if (at_ == end_) return Fail("unterminated string");
  switch (*at_++) {
    case '"':
      code_point = '"';
      return true;
    case '\\':
      code_point = '\\';
      return true;
    case '/':
      code_point = '/';
      return true;
    case 'b':
      code_point = '\b';
      return true;
    case 'f':
      code_point = '\f';
      return true;
    case 'n':
      code_point = '\n';
      return true;
    case 'r':
      code_point = '\r';
      return true;
    case 't':
      code_point = '\t';
      return true;
    case 'u':
      break;
    default:
      return Fail("unknown escape in a string");
  }
  if (!ReadHex4(code_point)) return false;
  if (code_point < 0xD800 || code_point > 0xDFFF) return true;
  if (code_point > 0xDBFF) return Fail("lone surrogate in a string");
  if (end_ - at_ < 6 || at_[0] != '\\' || at_[1] != 'u') return Fail("lone surrogate in a string");
  at_ += 2;
  uint32_t low = 0;
  if (!ReadHex4(low)) return false;
  if (low < 0xDC00 || low > 0xDFFF) return Fail("lone surrogate in a string");
  code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

bool JsonCursor::ReadNumber(std::string_view& token) {
  SkipSpace();
  const char* start = at_;
  const char* p = at_;
  if (p != end_ && *p == '-') ++p;
  if (p == end_ || !IsDigit(*p)) return Fail("expected a number");
  if (*p == '0') {
    ++p;
    if (p != end_ && IsDigit(*p)) return Fail("number with a leading zero");
  } else {
    while (p != end_ && IsDigit(*p)) ++p;
  }
  if (p != end_ && *p == '.') {
    ++p;
    if (p == end_ || !IsDigit(*p)) return Fail("malformed number");
    while (p != end_ && IsDigit(*p)) ++p;
  }
  if (p != end_ && (*p == 'e' || *p == 'E')) {
    ++p;
    if (p != end_ && (*p == '+' || *p == '-')) ++p;
    if (p == end_ || !IsDigit(*p)) return Fail("malformed number");
    while (p != end_ && IsDigit(*p)) ++p;
  }
  at_ = p;
  token = std::string_view(start, static_cast<size_t>(p - start));
  return true;
}

bool JsonCursor::SkipValue() {
  switch (Peek()) {
    case '"':
      return SkipString();
    case '{':
      return SkipObject();
    case '[':
      return SkipArray();
    case 't':
      return TakeLiteral("true") || Fail("malformed JSON value");
    case 'f':
      return TakeLiteral("false") || Fail("malformed JSON value");
    case 'n':
      return TakeLiteral("null") || Fail("malformed JSON value");
    default: {
      std::string_view token;
      return ReadNumber(token) || Fail("malformed JSON value");
    }
  }
}

bool JsonCursor::SkipArray() {
  ++at_;
  if (!Enter()) return false;
  if (!Take(']')) {
    while (true) {
      if (!SkipValue()) return false;
      if (Take(']')) break;
      if (!Take(',')) return Fail("expected ',' or ']' in an array");
    }
  }
  Leave();
  return true;
}

bool JsonCursor::SkipObject() {
  ++at_;
  if (!Enter()) return false;
  if (!Take('}')) {
    while (true) {
      if (Peek() != '"') return Fail("expected a key in an object");
      if (!SkipString()) return false;
      if (!Take(':')) return Fail("expected ':' after a key");
      if (!SkipValue()) return false;
      if (Take('}')) break;
      if (!Take(',')) return Fail("expected ',' or '}' in an object");
    }
  }
  Leave();
  return true;
}

}  // namespace sarissa::rollout
