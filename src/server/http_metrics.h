// The counters of the HTTP side, under the names that dashboards of the original use. Thread safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "engine/catalog.h"
#include "env/memory_budget.h"
#include "env/metrics.h"

namespace sarissa::server {

class HttpMetrics {
 public:
  explicit HttpMetrics(env::MetricsSink& sink);

  // `path` is the route's template, empty when no route matched.
  void CountRequest(std::string_view method, std::string_view path, int status, double seconds);

  void SetCatalog(const engine::CatalogStatus& status);
  void SetMemory(const env::MemoryBudget& budget);

  // Indexed by whether a flush was asked for.
  const std::array<env::Counter*, 2> appends;
  const std::array<env::Histogram*, 2> append_seconds;
  env::Counter& appends_flushed;
  env::Counter& records_appended;
  env::Counter& append_errors;
  env::Counter& budget_rejections;
  env::Counter& flush_errors;
  env::Histogram& blob_bytes;
  env::Counter& body_timeouts;
  env::Counter& stalled_responses;

 private:
  struct Series {
    env::Counter* requests;
    env::Histogram* seconds;
  };
  using Key = std::tuple<std::string, std::string, int>;
  using KeyView = std::tuple<std::string_view, std::string_view, int>;

  env::MetricsSink& sink_;
  env::Gauge& stores_;
  env::Gauge& stores_resident_;
  env::Gauge& stores_dirty_;
  env::Gauge& stores_waiting_;
  env::Gauge& oldest_unflushed_;
  env::Gauge& shards_retrying_;
  env::Gauge& shards_failed_;
  env::Gauge& shards_fenced_;
  env::Gauge& unflushed_bytes_;
  env::Gauge& memory_used_;
  env::Gauge& memory_limit_;
  env::Gauge& memory_waiting_;
  std::array<env::Gauge*, env::kMemoryUses.size()> memory_uses_;  // in the order of kMemoryUses
  std::mutex mutex_;  // leaf but for the sink's own lock
  std::map<Key, Series, std::less<>> series_;
};

}  // namespace sarissa::server
