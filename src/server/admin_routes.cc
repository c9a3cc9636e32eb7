#include "server/error_envelope.h"
#include "server/routes.h"

namespace sarissa::server {

Awaitable<Response> GetHealth(RouteContext&, Request&) {
  co_return JsonResponse(200, R"({"status":"ok"})");
}

Awaitable<Response> GetLive(RouteContext&, Request&) {
  co_return JsonResponse(200, R"({"status":"ok"})");
}

Awaitable<Response> GetReady(RouteContext& context, Request&) {
  if (context.draining.load(std::memory_order_relaxed)) {
    co_return ErrorResponse(503, "DRAINING", "the server is shutting down");
  }
  co_return JsonResponse(200, R"({"status":"ready"})");
}

Awaitable<Response> GetMetrics(RouteContext& context, Request&) {
  auto render = [&context]() -> Result<std::string> {
    context.metrics.stores_resident.Set(static_cast<double>(context.catalog.open_tables()));
    return context.prometheus.Render();
  };
  Result<std::string> text = co_await RunOn(context.io, *context.env.cpu, render);
  if (!text.ok()) co_return ErrorResponse(text.status());
  Response response;
  response.content_type = "text/plain; version=0.0.4";
  response.body = std::move(*text);
  co_return response;
}

}  // namespace sarissa::server
