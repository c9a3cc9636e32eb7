#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "rollout/json_escape.h"
#include "rollout/store_name.h"
#include "server/error_envelope.h"
#include "server/json_body.h"
#include "server/query.h"
#include "server/routes.h"

namespace sarissa::server {
namespace {

using TablePtr = std::shared_ptr<engine::Table>;

void AppendStoreInfo(std::string_view name, std::string_view uri,
                     std::optional<TableVersion> version, std::string& out) {
  out += R"({"name":)";
  rollout::AppendJsonString(name, out);
  out += R"(,"uri":)";
  rollout::AppendJsonString(uri, out);
  if (version.has_value()) out += fmt::format(R"(,"version":{})", *version);
  out += '}';
}

Response StoreInfoResponse(int status, RouteContext& context, const engine::Table& table) {
  std::string body;
  AppendStoreInfo(table.name(), context.catalog.UriOf(table.name()), table.version(), body);
  return JsonResponse(status, std::move(body));
}

// Reads a small JSON body and parses it off the io thread; else sets `refusal` to the answer that
// says what is wrong.
template <typename Body>
Awaitable<std::optional<Body>> ReadJson(RouteContext& context, Request& request,
                                        Result<Body> (*parse)(std::string_view),
                                        Response& refusal) {
  const std::string* content_type = request.Header("content-type");
  if (content_type == nullptr || !IsJsonContentType(*content_type)) {
    refusal = ErrorResponse(415, "INVALID_REQUEST", "the content type must be application/json");
    co_return std::nullopt;
  }
  Result<std::string> text = co_await ReadText(*request.body, context.options.small_body_limit);
  if (!text.ok()) {
    refusal = ErrorResponse(text.status());
    co_return std::nullopt;
  }
  auto work = [text = std::move(*text), parse] { return parse(text); };
  const Result<Body> body = co_await RunOn(context.io, *context.env.cpu, work);
  if (!body.ok()) {
    refusal = ErrorResponse(body.status());
    co_return std::nullopt;
  }
  if (!body->problem.empty()) {
    refusal = ErrorResponse(422, "INVALID_REQUEST", body->problem);
    co_return std::nullopt;
  }
  co_return *body;
}

}  // namespace

Awaitable<Result<TablePtr>> FindStore(RouteContext& context, std::string name) {
  const Status valid = rollout::CheckStoreName(name);
  if (!valid.ok()) co_return valid;
  const env::Future<TablePtr> found = context.catalog.Find(name);
  if (found.IsReady()) co_return found.Get();
  co_return co_await Await(context.io, found);
}

Awaitable<Response> CreateStore(RouteContext& context, Request& request) {
  Response refusal;
  const std::optional<CreateStoreBody> body =
      co_await ReadJson(context, request, &ParseCreateStore, refusal);
  if (!body.has_value()) co_return std::move(refusal);
  const std::string name = body->name;
  const Status valid = rollout::CheckStoreName(name);
  if (!valid.ok()) co_return ErrorResponse(valid);
  const env::Future<TablePtr> created = context.catalog.Create(name);
  const Result<TablePtr> table = co_await Await(context.io, created);
  if (!table.ok()) co_return ErrorResponse(table.status());
  co_return StoreInfoResponse(201, context, **table);
}

Awaitable<Response> ListStores(RouteContext& context, Request& request) {
  const Result<StoresQuery> query = ParseStoresQuery(request.query);
  if (!query.ok()) co_return ErrorResponse(query.status());
  auto list = [&context, query = *query]() -> Result<std::string> {
    engine::ListRequest wanted;
    wanted.prefix = query.prefix;
    wanted.start_after = query.start_after;
    wanted.limit = query.limit.value_or(0);
    ARROW_ASSIGN_OR_RAISE(const engine::TablePage page, context.catalog.List(wanted));
    std::string body = R"({"stores":[)";
    bool first = true;
    for (const engine::TableInfo& store : page.tables) {
      if (!std::exchange(first, false)) body += ',';
      AppendStoreInfo(store.name, store.uri, std::nullopt, body);
    }
    body += ']';
    if (page.more) {
      body += R"(,"next_page_token":)";
      rollout::AppendJsonString(PageTokenAfter(page.tables.back().name), body);
    }
    body += '}';
    return body;
  };
  Result<std::string> body = co_await RunOn(context.io, *context.env.storage, list);
  if (!body.ok()) co_return ErrorResponse(body.status());
  co_return JsonResponse(200, std::move(*body));
}

Awaitable<Response> GetStore(RouteContext& context, Request& request) {
  const Result<TablePtr> table = co_await FindStore(context, request.params[0]);
  if (!table.ok()) co_return ErrorResponse(table.status());
  co_return StoreInfoResponse(200, context, **table);
}

Awaitable<Response> DeleteStore(RouteContext& context, Request& request) {
  const std::string name = request.params[0];
  const Status valid = rollout::CheckStoreName(name);
  if (!valid.ok()) co_return ErrorResponse(valid);
  const env::Future<env::Unit> deleted = context.catalog.Delete(name);
  const Result<env::Unit> removed = co_await Await(context.io, deleted);
  if (!removed.ok()) co_return ErrorResponse(removed.status());
  Response response;
  response.status = 204;
  response.content_type.clear();
  co_return response;
}

Awaitable<Response> CheckoutStore(RouteContext& context, Request& request) {
  Response refusal;
  const std::optional<CheckoutBody> body =
      co_await ReadJson(context, request, &ParseCheckout, refusal);
  if (!body.has_value()) co_return std::move(refusal);
  const Result<TablePtr> table = co_await FindStore(context, request.params[0]);
  if (!table.ok()) co_return ErrorResponse(table.status());
  std::optional<TableVersion> version;
  if (body->version.has_value()) version = TableVersion(*body->version);
  // Named, not written into the call: gcc 12 destroys a temporary in an awaited expression twice.
  auto pin = [table = *table, version] { return table->Checkout(version); };
  const Result<TableVersion> read = co_await RunOn(context.io, *context.env.storage, pin);
  if (!read.ok()) co_return ErrorResponse(read.status());
  co_return JsonResponse(200, fmt::format(R"({{"version":{}}})", *read));
}

Awaitable<Response> FlushStore(RouteContext& context, Request& request) {
  const env::MonotonicTime start = context.env.clock->Now();
  const Result<TablePtr> table = co_await FindStore(context, request.params[0]);
  if (!table.ok()) co_return ErrorResponse(table.status());
  const Result<engine::FlushReport> report = co_await Await(context.io, (*table)->Flush());
  if (!report.ok()) {
    context.metrics.flush_errors.Add();
    co_return ErrorResponse(report.status());
  }
  const auto elapsed =
      std::chrono::duration_cast<std::chrono::milliseconds>(context.env.clock->Now() - start);
  const std::string generation = report->sealed_generation.has_value()
                                     ? fmt::format("{}", *report->sealed_generation)
                                     : "null";
  co_return JsonResponse(
      200, fmt::format(R"({{"sealed_generation":{},"rows":{},"milliseconds":{}}})", generation,
                       report->rows, elapsed.count()));
}

}  // namespace sarissa::server
