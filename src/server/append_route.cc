#include <fmt/format.h>

#include <chrono>

#include "server/append_body.h"
#include "server/error_envelope.h"
#include "server/query.h"
#include "server/routes.h"

namespace sarissa::server {
namespace {

// Hands the rows over on the storage executor: an append may have to read stored values first.
Awaitable<Result<env::Future<engine::AppendReceipt>>> StartAppend(
    RouteContext& context, std::shared_ptr<engine::Table> table, std::shared_ptr<AppendBody> body) {
  auto start = [table = std::move(table), body]() -> Result<env::Future<engine::AppendReceipt>> {
    return table->Append(std::move(body->batches), std::move(body->charge));
  };
  co_return co_await RunOn(context.io, *context.env.storage, start);
}

Awaitable<Response> Append(RouteContext& context, Request& request, bool flush) {
  const Result<std::shared_ptr<AppendBody>> body = co_await ReadAppendBody(context, request);
  if (!body.ok()) {
    if (Is(body.status(), ErrorKind::kOverloaded)) context.metrics.budget_rejections.Add();
    co_return ErrorResponse(body.status());
  }
  // Held to the end: the lease keeps the store open.
  const Result<std::shared_ptr<engine::Table>> table =
      co_await FindStore(context, request.params[0]);
  if (!table.ok()) co_return ErrorResponse(table.status());
  const auto started = co_await StartAppend(context, *table, *body);
  if (!started.ok()) co_return ErrorResponse(started.status());
  const Result<engine::AppendReceipt> receipt = co_await Await(context.io, *started);
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
    const Result<engine::FlushReport> report = co_await Await(context.io, (*table)->Flush());
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
