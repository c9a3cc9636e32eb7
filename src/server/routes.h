// The route table and its handlers. A handler runs on the connection's coroutine: decoding goes to
// the cpu executor, engine calls to the storage executor.
#pragma once

#include <string_view>
#include <vector>

#include "server/route_context.h"

namespace sarissa::server {

using RouteHandler = Awaitable<Response> (*)(RouteContext& context, Request& request);

struct Route {
  Method method;
  std::string_view path;
  RouteHandler handler;
};

const std::vector<Route>& Routes();

// admin_routes.cc
Awaitable<Response> GetHealth(RouteContext& context, Request& request);
Awaitable<Response> GetLive(RouteContext& context, Request& request);
Awaitable<Response> GetReady(RouteContext& context, Request& request);
Awaitable<Response> GetMetrics(RouteContext& context, Request& request);
Awaitable<Response> GetStatus(RouteContext& context, Request& request);
// store_routes.cc
Awaitable<Response> CreateStore(RouteContext& context, Request& request);
Awaitable<Response> ListStores(RouteContext& context, Request& request);
Awaitable<Response> GetStore(RouteContext& context, Request& request);
Awaitable<Response> DeleteStore(RouteContext& context, Request& request);
Awaitable<Response> CheckoutStore(RouteContext& context, Request& request);
Awaitable<Response> FlushStore(RouteContext& context, Request& request);
// append_route.cc
Awaitable<Response> AppendRecords(RouteContext& context, Request& request);
// record_routes.cc
Awaitable<Response> ListRecords(RouteContext& context, Request& request);
Awaitable<Response> GetRecord(RouteContext& context, Request& request);
Awaitable<Response> GetBlob(RouteContext& context, Request& request);

// Checks the name, then opens the store: kInvalid, kNotFound, or what the engine says.
Awaitable<Result<std::shared_ptr<engine::Table>>> FindStore(RouteContext& context,
                                                            std::string name);

}  // namespace sarissa::server
