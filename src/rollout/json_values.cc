#include "rollout/json_values.h"

#include <charconv>
#include <cstddef>
#include <limits>
#include <system_error>

#include "rollout/float_text.h"

namespace sarissa::rollout {
namespace {

std::string_view KindOfNext(char first) {
  switch (first) {
    case '"':
      return "a string";
    case '{':
      return "an object";
    case '[':
      return "an array";
    case 't':
    case 'f':
      return "a boolean";
    case 'n':
      return "null";
    default:
      return "a number";
  }
}

bool IsDigit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

// Reads a plain integer of at most 18 digits; leaves the cursor where it was if the text is
// anything else.
bool ReadShortInt(JsonCursor& cursor, int64_t& out) {
  cursor.SkipSpace();
  const char* at = cursor.position();
  const char* end = cursor.end();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const char* digits = at;
  int64_t value = 0;
  while (at != end && IsDigit(*at) && at - digits < 18) value = value * 10 + (*at++ - '0');
  if (at == digits || (*digits == '0' && at - digits > 1)) return false;
  if (at != end && (IsDigit(*at) || *at == '.' || *at == 'e' || *at == 'E')) return false;
  cursor.MoveTo(at);
  out = negative ? -value : value;
  return true;
}

Status AtElement(const Status& status, size_t index) {
  return Error(KindOf(status), "[{}]: {}", index, status.message());
}

template <typename Item, typename ReadItem>
Status ReadItems(JsonCursor& cursor, std::vector<Item>& out, ReadItem read) {
  out.clear();
  if (!cursor.Take('[')) return UnexpectedJson(cursor, "an array");
  if (!cursor.Enter()) return JsonError(cursor);
  if (!cursor.Take(']')) {
    while (true) {
      Item item{};
      const Status status = read(item);
      if (!status.ok()) return AtElement(status, out.size());
      out.push_back(item);
      if (cursor.Take(',')) continue;
      if (cursor.Take(']')) break;
      cursor.Fail("expected ',' or ']' in an array");
      return JsonError(cursor);
    }
  }
  cursor.Leave();
  return Status::OK();
}

template <typename Item>
Status ReadInts(JsonCursor& cursor, std::vector<Item>& out) {
  return ReadItems(cursor, out, [&cursor](Item& item) {
    int64_t value = 0;
    ARROW_RETURN_NOT_OK(ReadJsonInt(cursor, std::numeric_limits<Item>::min(),
                                    std::numeric_limits<Item>::max(), value));
    item = static_cast<Item>(value);
    return Status::OK();
  });
}

}  // namespace

Status JsonError(const JsonCursor& cursor) {
  return Error(ErrorKind::kInvalid, "{}", cursor.error());
}

Status UnexpectedJson(JsonCursor& cursor, std::string_view what) {
  const std::string_view got = KindOfNext(cursor.Peek());
  if (!cursor.SkipValue()) return JsonError(cursor);
  return Error(ErrorKind::kInvalid, "expected {}, got {}", what, got);
}

Status ReadJsonInt(JsonCursor& cursor, int64_t low, int64_t high, int64_t& out) {
  if (!ReadShortInt(cursor, out)) {
    const char first = cursor.Peek();
    if (first != '-' && !IsDigit(first)) return UnexpectedJson(cursor, "an integer");
    std::string_view token;
    if (!cursor.ReadNumber(token)) return JsonError(cursor);
    if (token.find_first_of(".eE") != std::string_view::npos) {
      return Error(ErrorKind::kInvalid, "expected an integer, got {}", token.substr(0, 40));
    }
    const auto read = std::from_chars(token.data(), token.data() + token.size(), out);
    if (read.ec != std::errc()) {
      return Error(ErrorKind::kInvalid, "{} is out of range {} to {}", token.substr(0, 40), low,
                   high);
    }
  }
  if (out < low || out > high) {
    return Error(ErrorKind::kInvalid, "{} is out of range {} to {}", out, low, high);
  }
  return Status::OK();
}

Status ReadJsonFloat(JsonCursor& cursor, float& out) {
  const char first = cursor.Peek();
  if (const char* after = ParseFloat32Fast(cursor.position(), cursor.end(), out);
      after != nullptr) {
    cursor.MoveTo(after);
    return Status::OK();
  }
  if (first != '-' && !IsDigit(first)) return UnexpectedJson(cursor, "a number");
  std::string_view token;
  if (!cursor.ReadNumber(token)) return JsonError(cursor);
  if (!ParseFloat32(token, out)) {
    return Error(ErrorKind::kInvalid, "{} is out of range for float32", token.substr(0, 40));
  }
  return Status::OK();
}

Status ReadJsonBool(JsonCursor& cursor, bool& out) {
  out = cursor.TakeLiteral("true");
  if (out || cursor.TakeLiteral("false")) return Status::OK();
  return UnexpectedJson(cursor, "a boolean");
}

Status ReadJsonText(JsonCursor& cursor, std::string& scratch, std::string_view& out) {
  if (cursor.Peek() != '"') return UnexpectedJson(cursor, "a string");
  return cursor.ReadString(out, scratch) ? Status::OK() : JsonError(cursor);
}

Status ReadJsonInts(JsonCursor& cursor, std::vector<int32_t>& out) {
  return ReadInts(cursor, out);
}

Status ReadJsonInts(JsonCursor& cursor, std::vector<int8_t>& out) {
  return ReadInts(cursor, out);
}

Status ReadJsonFloats(JsonCursor& cursor, std::vector<float>& out) {
  return ReadItems(cursor, out, [&cursor](float& item) { return ReadJsonFloat(cursor, item); });
}

}  // namespace sarissa::rollout
