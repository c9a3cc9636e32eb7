#include <fmt/format.h>

#include <chrono>

#include "rollout/store_name.h"
#include "server/append_body.h"
#include "server/error_envelope.h"
#include "server/query.h"
#include "server/routes.h"

namespace sarissa::server {
namespace {

struct Started {
  std::shared_ptr<engine::Table> table;
  env::Future<engine::AppendReceipt> receipt;
};

// Opens the store and hands the rows over, in one visit to the storage executor.
Awaitable<Result<Started>> StartAppend(RouteContext& context, std::string name,
                                       std::shared_ptr<AppendBody> body) {
  auto start = [&context, name = std::move(name), body]() -> Result<Started> {
    ARROW_RETURN_NOT_OK(rollout::CheckStoreName(name));
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<engine::Table> table, context.catalog.Find(name));
    env::Future<engine::AppendReceipt> receipt =
        table->Append(std::move(body->batches), std::move(body->charge));
    return Started{std::move(table), std::move(receipt)};
  };
  co_return co_await RunOn(context.io, *context.env.storage, start);
}

Awaitable<Response> Append(RouteContext& context, Request& request, bool flush) {
  const Result<std::shared_ptr<AppendBody>> body = co_await ReadAppendBody(context, request);
  if (!body.ok()) {
    if (Is(body.status(), ErrorKind::kOverloaded)) context.metrics.budget_rejections.Add();
    co_return ErrorResponse(body.status());
  }
  const Result<Started> started = co_await StartAppend(context, request.params[0], *body);
  if (!started.ok()) co_return ErrorResponse(started.status());
  const Result<engine::AppendReceipt> receipt = co_await Await(context.io, started->receipt);
  if (!receipt.ok()) {
    context.metrics.append_errors.Add();
    co_return ErrorResponse(receipt.status());
  }
  context.metrics.appends[flush ? 1 : 0]->Add();
  context.metrics.records_appended.Add(static_cast<double>((*body)->count));
  if ((*body)->payload_bytes > 0) {
    context.metrics.blob_bytes.Observe(static_cast<double>((*body)->payload_bytes));
  }
  if (flush) {
    const Result<engine::FlushReport> report = co_await Await(context.io, started->table->Flush());
    if (!report.ok()) {
      context.metrics.flush_errors.Add();
      co_return DurableNotFlushedResponse(report.status());
    }
    context.metrics.appends_flushed.Add();
  }
  co_return JsonResponse(
      201, fmt::format(R"({{"version":{},"ids":{},"count":{}}})", receipt->base_version,
                       (*body)->ids_json, (*body)->count));
}

}  // namespace

Awaitable<Response> AppendRecords(RouteContext& context, Request& request) {
  const env::MonotonicTime start = context.env.clock->Now();
  const bool flush = WantsFlush(request.query);
  Response response = co_await Append(context, request, flush);
  const std::chrono::duration<double> elapsed = context.env.clock->Now() - start;
  context.metrics.append_seconds[flush ? 1 : 0]->Observe(elapsed.count());
  co_return response;
}

}  // namespace sarissa::server
