#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "env/posix/process_stats.h"
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

std::string_view NameOf(engine::ReconciliationStatus::State state) {
  switch (state) {
    case engine::ReconciliationStatus::State::kOff:
      return "off";
    case engine::ReconciliationStatus::State::kRunning:
      return "running";
    case engine::ReconciliationStatus::State::kDone:
      return "done";
    case engine::ReconciliationStatus::State::kFailed:
      return "failed";
  }
  return "off";
}

double Seconds(env::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// How many shards are in which state, by the kind of what ails them.
std::string CausesJson(const engine::CatalogHealth& health) {
  std::map<std::pair<std::string_view, std::string_view>, uint64_t> counts;
  for (const engine::ShardTrouble& trouble : health.troubles)
    ++counts[{NameOf(trouble.kind), ErrorKindName(KindOf(trouble.cause))}];
  std::string out = R"(,"causes":[)";
  bool first = true;
  for (const auto& [key, count] : counts) {
    if (!std::exchange(first, false)) out += ',';
    out += fmt::format(R"({{"state":"{}","kind":"{}","shards":{}}})", key.first, key.second, count);
  }
  return out + ']';
}

// `"bodies":0,"memtables":4096,...`
std::string UsesJson(const env::MemoryBudget& budget) {
  std::string out;
  for (const env::MemoryUse use : env::kMemoryUses) {
    out += fmt::format(R"({}"{}":{})", out.empty() ? "" : ",", env::MemoryUseName(use),
                       budget.used(use));
  }
  return out;
}

std::string StatusJson(const engine::CatalogStatus& status, const env::MemoryBudget& budget) {
  const std::string oldest =
      status.oldest_unflushed ? fmt::format("{:.3f}", Seconds(*status.oldest_unflushed)) : "null";
  const engine::SweeperStatus& sweeper = status.sweeper;
  const engine::ReconciliationStatus& walk = status.reconciliation;
  std::string out = fmt::format(
      R"({{"stores":{},"resident":{},"leased":{},"opening":{},"draining":{},"waiting":{},)"
      R"("capacity":{},"dirty":{},"marked":{},"oldest_unflushed_seconds":{},"evictions":{},)"
      R"("evictions_undrained":{})",
      status.tables, status.resident, status.leased, status.opening, status.draining,
      status.waiting, status.capacity, status.dirty, status.marked, oldest, status.evictions,
      status.evictions_undrained);
  out += fmt::format(
      R"(,"memory":{{"limit":{},"used":{},"waiting":{},"unflushed":{},"process_resident":{},)"
      R"("uses":{{{}}}}})",
      budget.limit(), budget.used(), budget.waiting(), status.health.unflushed_bytes,
      env::ResidentBytes(), UsesJson(budget));
  out += fmt::format(R"(,"sweeper":{{"passes":{},"running":{},"flushed":{},"timed_out":{}}})",
                     sweeper.passes, sweeper.running, sweeper.flushed, sweeper.timed_out);
  out +=
      fmt::format(R"(,"reconciliation":{{"state":"{}","examined":{},"registered":{},"removed":{},)"
                  R"("without_files":{},"unreadable":{},"dirty":{}}})",
                  NameOf(walk.state), walk.examined, walk.registered, walk.removed,
                  walk.without_files, walk.unreadable, walk.dirty);
  return out + TroublesJson(status.health) + CausesJson(status.health) + '}';
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

Awaitable<Response> GetStatus(RouteContext& context, Request&) {
  auto describe = [&context]() -> Result<std::string> {
    return StatusJson(context.catalog.Describe(), *context.env.budget);
  };
  Result<std::string> body = co_await RunOn(context.io, *context.env.cpu, describe);
  if (!body.ok()) co_return ErrorResponse(body.status());
  co_return JsonResponse(200, std::move(*body));
}

Awaitable<Response> GetMetrics(RouteContext& context, Request&) {
  auto render = [&context]() -> Result<std::string> {
    context.metrics.SetCatalog(context.catalog.Describe());
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
