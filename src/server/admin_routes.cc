#include <fmt/format.h>

#include <algorithm>

#include "rollout/json_escape.h"
#include "server/error_envelope.h"
#include "server/routes.h"

namespace sarissa::server {

namespace {

std::string_view NameOf(engine::ShardTrouble::Kind kind) {
  switch (kind) {
    case engine::ShardTrouble::Kind::kRetrying:
      return "retrying";
    case engine::ShardTrouble::Kind::kFailed:
      return "failed";
    case engine::ShardTrouble::Kind::kFenced:
      return "fenced";
  }
  return "failed";
}

// `,"shards":[{"store":..,"state":..,"cause":..}]`, the first ones only.
std::string TroublesJson(const engine::CatalogHealth& health) {
  constexpr size_t kShown = 100;
  std::string out = R"(,"shards":[)";
  for (size_t i = 0; i < std::min(kShown, health.troubles.size()); ++i) {
    const engine::ShardTrouble& trouble = health.troubles[i];
    out += i == 0 ? R"({"store":)" : R"(,{"store":)";
    rollout::AppendJsonString(trouble.table, out);
    out += fmt::format(R"(,"state":"{}","cause":)", NameOf(trouble.kind));
    rollout::AppendJsonString(trouble.cause.message(), out);
    out += '}';
  }
  out += fmt::format(R"(],"retrying":{},"failed":{},"fenced":{})", health.retrying, health.failed,
                     health.fenced);
  return out;
}

// `status` alone while all is well: what clients of the contract expect.
Awaitable<Response> StatusWithTroubles(RouteContext& context, std::string_view well,
                                       std::string_view troubled) {
  auto look = [&context]() -> Result<engine::CatalogHealth> { return context.catalog.Health(); };
  const Result<engine::CatalogHealth> health = co_await RunOn(context.io, *context.env.cpu, look);
  if (!health.ok()) co_return ErrorResponse(health.status());
  if (health->troubles.empty()) {
    co_return JsonResponse(200, fmt::format(R"({{"status":"{}"}})", well));
  }
  co_return JsonResponse(200,
                         fmt::format(R"({{"status":"{}"{}}})", troubled, TroublesJson(*health)));
}

}  // namespace

// One bad store does not take the others out of service: 200 also when degraded.
Awaitable<Response> GetHealth(RouteContext& context, Request&) {
  co_return co_await StatusWithTroubles(context, "ok", "degraded");
}

Awaitable<Response> GetLive(RouteContext&, Request&) {
  co_return JsonResponse(200, R"({"status":"ok"})");
}

Awaitable<Response> GetReady(RouteContext& context, Request&) {
  if (context.draining.load(std::memory_order_relaxed)) {
    co_return ErrorResponse(503, "DRAINING", "the server is shutting down");
  }
  co_return co_await StatusWithTroubles(context, "ready", "ready");
}

Awaitable<Response> GetMetrics(RouteContext& context, Request&) {
  auto render = [&context]() -> Result<std::string> {
    context.metrics.stores_resident.Set(static_cast<double>(context.catalog.open_tables()));
    context.metrics.SetHealth(context.catalog.Health());
    context.metrics.SetMemory(*context.env.budget);
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
