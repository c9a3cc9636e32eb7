// From a request to its handler: routing, the draining gate, metrics and the log line of each
// request. Thread safe.
#pragma once

#include <string_view>

#include "server/route_context.h"
#include "server/router.h"
#include "server/routes.h"

namespace sarissa::server {

class Dispatcher {
 public:
  explicit Dispatcher(RouteContext& context);

  // Always gives an answer; `path` becomes the template of the route, for Finished().
  Awaitable<Response> Handle(Request& request, std::string_view& path);

  // The last byte of an answer was written, or could not be.
  void Finished(const Request& request, std::string_view path, int status, env::MonotonicTime start,
                bool complete);

  RouteContext& context() { return context_; }

 private:
  RouteContext& context_;
  const Router router_;
};

}  // namespace sarissa::server
