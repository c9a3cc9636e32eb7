// What every route handler gets. All references outlive the server's connections.
#pragma once

#include <atomic>

#include "engine/catalog.h"
#include "env/env.h"
#include "server/await.h"
#include "server/http_message.h"
#include "server/http_metrics.h"
#include "server/options.h"
#include "server/prometheus_metrics.h"

namespace sarissa::server {

struct RouteContext {
  const env::Env& env;
  env::Executor& io;  // where completions come back
  engine::Catalog& catalog;
  const ServerOptions& options;
  HttpMetrics& metrics;
  PrometheusMetrics& prometheus;
  // Set once, when shutdown begins. Relaxed: only decides which answer a request gets.
  const std::atomic<bool>& draining;
};

}  // namespace sarissa::server
