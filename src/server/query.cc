#include "server/query.h"

#include <arrow/result.h>

#include <charconv>
#include <set>

#include "server/target.h"

namespace sarissa::server {
namespace {

template <typename Visit>
void ForEachPair(std::string_view query, const Visit& visit) {
  while (!query.empty()) {
    const size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    if (!pair.empty()) {
      const size_t equals = pair.find('=');
      const bool bare = equals == std::string_view::npos;
      visit(pair.substr(0, equals), bare ? std::string_view() : pair.substr(equals + 1), bare);
    }
    if (end == std::string_view::npos) return;
    query.remove_prefix(end + 1);
  }
}

std::string DecodeFormText(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+') {
      out.push_back(' ');
      continue;
    }
    if (text[i] == '%') {
      const Result<std::string> byte = PercentDecode(text.substr(i, 3));
      if (byte.ok()) {
        out += *byte;
        i += 2;
        continue;
      }
    }
    out.push_back(text[i]);
  }
  return out;
}

Result<uint64_t> ParseCount(std::string_view name, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return Error(ErrorKind::kInvalid, "{}: expected a non-negative integer of 64 bits", name);
  }
  return value;
}

bool IsTrueInAnyCase(std::string_view text) {
  constexpr std::string_view kTrue = "true";
  if (text.size() != kTrue.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c =
        text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
    if (c != kTrue[i]) return false;
  }
  return true;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> DecodeForm(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  ForEachPair(query, [&](std::string_view key, std::string_view value, bool) {
    pairs.emplace_back(DecodeFormText(key), DecodeFormText(value));
  });
  return pairs;
}

Result<ListQuery> ParseListQuery(std::string_view query) {
  ListQuery result;
  bool has_limit = false;
  bool has_offset = false;
  const auto once = [](bool& seen, const std::string& name) -> Status {
    if (seen) return Error(ErrorKind::kInvalid, "{}: given more than once", name);
    seen = true;
    return Status::OK();
  };
  for (auto& [key, value] : DecodeForm(query)) {
    if (key == "limit") {
      ARROW_RETURN_NOT_OK(once(has_limit, key));
      ARROW_ASSIGN_OR_RAISE(result.limit, ParseCount(key, value));
    } else if (key == "offset") {
      ARROW_RETURN_NOT_OK(once(has_offset, key));
      ARROW_ASSIGN_OR_RAISE(result.offset, ParseCount(key, value));
    } else if (key == "filters") {
      if (result.filters.has_value()) {
        return Error(ErrorKind::kInvalid, "filters: given more than once");
      }
      result.filters = std::move(value);
    }
  }
  return result;
}

std::string PageTokenAfter(std::string_view name) {
  return "a." + std::string(name);
}

Result<StoresQuery> ParseStoresQuery(std::string_view query) {
  StoresQuery result;
  std::set<std::string> seen;
  for (auto& [key, value] : DecodeForm(query)) {
    const bool ours = key == "prefix" || key == "limit" || key == "page_token";
    if (!ours) continue;
    if (!seen.insert(key).second)
      return Error(ErrorKind::kInvalid, "{}: given more than once", key);
    if (key == "prefix") {
      result.prefix = std::move(value);
    } else if (key == "limit") {
      ARROW_ASSIGN_OR_RAISE(result.limit, ParseCount(key, value));
      if (*result.limit == 0) return Error(ErrorKind::kInvalid, "limit: expected at least 1");
    } else {
      if (!value.starts_with("a.") || value.size() == 2)
        return Error(ErrorKind::kInvalid, "page_token: not a token that this server gave");
      result.start_after = value.substr(2);
    }
  }
  return result;
}

bool WantsFlush(std::string_view query) {
  bool flush = false;
  ForEachPair(query, [&](std::string_view key, std::string_view value, bool bare) {
    if (key == "flush" && (bare || value == "1" || IsTrueInAnyCase(value))) flush = true;
  });
  return flush;
}

}  // namespace sarissa::server
