// Which route a path belongs to. Pure: routes are known by their index in the table given at
// construction.
//
// A template is made of literal segments and of "{param}" segments, which match any one segment
// that is not empty. HEAD is answered by every GET route. Immutable, thread safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_message.h"

namespace sarissa::server {

struct RoutePattern {
  Method method;
  std::string_view path;  // "/api/v1/rollouts/{name}"
};

struct RouteMatch {
  // Set when method and path match.
  std::optional<size_t> route;
  std::vector<std::string> params;
  // The methods of the path, as the allow header wants them; empty when no route has this path.
  std::string allow;
};

class Router {
 public:
  explicit Router(const std::vector<RoutePattern>& patterns);

  RouteMatch Match(Method method, const std::vector<std::string>& segments) const;

 private:
  struct Entry {
    Method method;
    std::vector<std::string> segments;
  };
  std::vector<Entry> entries_;
};

}  // namespace sarissa::server
