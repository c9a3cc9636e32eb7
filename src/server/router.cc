#include "server/router.h"

namespace sarissa::server {
namespace {

bool IsParam(const std::string& segment) {
  return segment.starts_with('{');
}

std::vector<std::string> SplitTemplate(std::string_view path) {
  std::vector<std::string> segments;
  path.remove_prefix(1);
  for (;;) {
    const size_t slash = path.find('/');
    segments.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool Matches(const std::vector<std::string>& pattern, const std::vector<std::string>& segments) {
  if (pattern.size() != segments.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (IsParam(pattern[i]) ? segments[i].empty() : pattern[i] != segments[i]) return false;
  }
  return true;
}

std::string_view AllowText(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET, HEAD";
    case Method::kPost:
      return "POST";
    case Method::kDelete:
      return "DELETE";
    case Method::kHead:
    case Method::kOther:
      break;
  }
  return "";
}

}  // namespace

Router::Router(const std::vector<RoutePattern>& patterns) {
  entries_.reserve(patterns.size());
  for (const RoutePattern& pattern : patterns) {
    entries_.push_back({pattern.method, SplitTemplate(pattern.path)});
  }
}

RouteMatch Router::Match(Method method, const std::vector<std::string>& segments) const {
  const Method wanted = method == Method::kHead ? Method::kGet : method;
  RouteMatch match;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (!Matches(entry.segments, segments)) continue;
    if (!match.allow.empty()) match.allow += ", ";
    match.allow += AllowText(entry.method);
    if (entry.method != wanted || match.route.has_value()) continue;
    match.route = i;
    for (size_t s = 0; s < segments.size(); ++s) {
      if (IsParam(entry.segments[s])) match.params.push_back(segments[s]);
    }
  }
  return match;
}

}  // namespace sarissa::server
