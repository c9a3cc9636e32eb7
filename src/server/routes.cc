#include "server/routes.h"

namespace sarissa::server {

const std::vector<Route>& Routes() {
  static const std::vector<Route> routes = {
      {Method::kGet, "/api/v1/health", GetHealth},
      {Method::kGet, "/livez", GetLive},
      {Method::kGet, "/readyz", GetReady},
      {Method::kGet, "/metrics", GetMetrics},
      {Method::kGet, "/api/v1/status", GetStatus},
      {Method::kPost, "/api/v1/rollouts", CreateStore},
      {Method::kGet, "/api/v1/rollouts", ListStores},
      {Method::kGet, "/api/v1/rollouts/{name}", GetStore},
      {Method::kDelete, "/api/v1/rollouts/{name}", DeleteStore},
      {Method::kPost, "/api/v1/rollouts/{name}/records", AppendRecords},
      {Method::kGet, "/api/v1/rollouts/{name}/records", ListRecords},
      {Method::kGet, "/api/v1/rollouts/{name}/records/{id}", GetRecord},
      {Method::kGet, "/api/v1/rollouts/{name}/records/{id}/blob", GetBlob},
      {Method::kPost, "/api/v1/rollouts/{name}/checkout", CheckoutStore},
      {Method::kPost, "/api/v1/rollouts/{name}/flush", FlushStore},
  };
  return routes;
}

}  // namespace sarissa::server
