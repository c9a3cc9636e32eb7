#include "server/target.h"

#include <arrow/result.h>

#include "rollout/utf8.h"

namespace sarissa::server {
namespace {

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The origin form of an absolute target: what follows the authority.
std::string_view WithoutAuthority(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = target.find_first_of("/?");
    if (end == std::string_view::npos || target[end] == '?') return "/";
    return target.substr(end);
  }
  return target;
}

}  // namespace

Result<std::string> PercentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? HexValue(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexValue(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return Error(ErrorKind::kInvalid, "path: '%' is not followed by two hex digits at byte {}",
                   i);
    }
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

Result<Target> ParseTarget(std::string_view target) {
  target = WithoutAuthority(target);
  if (!target.starts_with('/')) {
    return Error(ErrorKind::kInvalid, "the request target does not start with '/'");
  }
  Target result;
  const size_t fragment = target.find('#');
  if (fragment != std::string_view::npos) target = target.substr(0, fragment);
  const size_t question = target.find('?');
  if (question != std::string_view::npos) {
    result.query = target.substr(question + 1);
    target = target.substr(0, question);
  }
  target.remove_prefix(1);
  for (;;) {
    const size_t slash = target.find('/');
    ARROW_ASSIGN_OR_RAISE(std::string segment, PercentDecode(target.substr(0, slash)));
    if (!rollout::IsUtf8(segment)) {
      return Error(ErrorKind::kInvalid, "path: segment {} is not UTF-8", result.segments.size());
    }
    result.segments.push_back(std::move(segment));
    if (slash == std::string_view::npos) return result;
    target.remove_prefix(slash + 1);
  }
}

}  // namespace sarissa::server
