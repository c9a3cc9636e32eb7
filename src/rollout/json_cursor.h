// A strict RFC 8259 reader over one piece of JSON text: the grammar of strings, numbers and skipped
// values, checked byte by byte. The text must be UTF-8 already (see utf8.h); escapes that name a
// lone surrogate are errors.
//
// Every Read returns false on a violation and leaves the reason in error(); nothing is allocated
// per value. The cursor does not own the text. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sarissa::rollout {

// Containers inside one another, counted from the root of the document. Deeper input is refused.
inline constexpr int kMaxJsonDepth = 64;

class JsonCursor {
 public:
  // `depth` is how many more levels of containers the text may open.
  JsonCursor(std::string_view text, int depth)
      : at_(text.data()), end_(text.data() + text.size()), depth_(depth) {}

  void SkipSpace() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  // The next byte after white space; 0 at the end.
  char Peek() {
    SkipSpace();
    return at_ == end_ ? '\0' : *at_;
  }
  // Takes `c` if it comes next.
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool TakeLiteral(std::string_view literal);
  bool AtEnd() {
    SkipSpace();
    return at_ == end_;
  }

  // The decoded string: a view of the text if it holds no escape, else of `scratch`.
  bool ReadString(std::string_view& out, std::string& scratch);
  // The exact characters of the number.
  bool ReadNumber(std::string_view& token);
  // Checks one whole value and moves past it.
  bool SkipValue();

  // Opens or closes a level; Enter fails past the limit.
  bool Enter();
  void Leave() { ++depth_; }

  bool Fail(const char* reason) {
    error_ = reason;
    return false;
  }
  const char* error() const { return error_; }
  const char* position() const { return at_; }
  const char* end() const { return end_; }
  void MoveTo(const char* position) { at_ = position; }

 private:
  bool SkipString();
  bool SkipArray();
  bool SkipObject();
  bool ReadEscape(uint32_t& code_point);
  bool ReadHex4(uint32_t& value);

  const char* at_;
  const char* end_;
  int depth_;
  const char* error_ = "malformed JSON";
};

}  // namespace sarissa::rollout
