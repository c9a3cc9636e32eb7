#include "server/dispatcher.h"

#include <chrono>
#include <exception>

#include "server/error_envelope.h"
#include "server/log.h"
#include "server/target.h"

namespace sarissa::server {
namespace {

std::vector<RoutePattern> Patterns() {
  std::vector<RoutePattern> patterns;
  for (const Route& route : Routes()) patterns.push_back({route.method, route.path});
  return patterns;
}

Response Draining() {
  Response response = ErrorResponse(503, "DRAINING", "the server is shutting down");
  response.close = true;
  return response;
}

// A handler that throws is a bug of ours, and must not take other requests with it.
Awaitable<Response> Guarded(RouteHandler handler, RouteContext& context, Request& request) {
  try {
    co_return co_await handler(context, request);
  } catch (const std::bad_alloc&) {
    co_return ErrorResponse(Error(ErrorKind::kOverloaded, "out of memory"));
  } catch (const std::exception& e) {
    LogLine(LogLevel::kError, "handler_threw")
        .With("request_id", request.id)
        .With("what", e.what());
    co_return ErrorResponse(500, "INTERNAL", "the request handler failed");
  }
}

}  // namespace

Dispatcher::Dispatcher(RouteContext& context) : context_(context), router_(Patterns()) {}

Awaitable<Response> Dispatcher::Handle(Request& request, std::string_view& path) {
  if (context_.draining.load(std::memory_order_relaxed)) co_return Draining();
  Result<Target> target = ParseTarget(request.target);
  if (!target.ok()) co_return ErrorResponse(target.status());
  RouteMatch match = router_.Match(request.method, target->segments);
  if (match.route.has_value()) {
    const Route& route = Routes()[*match.route];
    path = route.path;
    request.query = std::move(target->query);
    request.params = std::move(match.params);
    co_return co_await Guarded(route.handler, context_, request);
  }
  if (match.allow.empty()) co_return ErrorResponse(404, "NOT_FOUND", "there is no such path");
  Response response =
      ErrorResponse(405, "METHOD_NOT_ALLOWED", "the path does not answer this method");
  response.headers.emplace_back("allow", std::move(match.allow));
  co_return response;
}

void Dispatcher::Finished(const Request& request, std::string_view path, int status,
                          env::MonotonicTime start, bool complete) {
  const std::chrono::duration<double> elapsed = context_.env.clock->Now() - start;
  // A method that nobody knows must not become a label of its own.
  const std::string_view method =
      request.method == Method::kOther ? std::string_view("OTHER") : request.method_text;
  context_.metrics.CountRequest(method, path, status, elapsed.count());
  const LogLevel level = !complete || status >= 500 ? LogLevel::kWarning : LogLevel::kDebug;
  LogLine(level, complete ? "request" : "request_broken_off")
      .With("request_id", request.id)
      .With("method", request.method_text)
      .With("target", request.target)
      .With("status", status)
      .WithSeconds("seconds", elapsed.count());
}

}  // namespace sarissa::server
