#include "server/http_metrics.h"

namespace sarissa::server {
namespace {

env::Counter* Appends(env::MetricsSink& sink, const char* flush) {
  return &sink.GetCounter("rollout_appends_total", "Append requests that were acknowledged.",
                          {{"flush", flush}});
}

env::Histogram* AppendSeconds(env::MetricsSink& sink, const char* flush) {
  return &sink.GetHistogram("rollout_add_request_duration_seconds",
                            "Append requests from the parsed header to the answer.",
                            {{"flush", flush}});
}

std::array<env::Gauge*, env::kMemoryUses.size()> MemoryUses(env::MetricsSink& sink) {
  std::array<env::Gauge*, env::kMemoryUses.size()> gauges{};
  for (size_t i = 0; i < gauges.size(); ++i) {
    gauges[i] = &sink.GetGauge("rollout_memory_bytes", "Memory charged to the budget, by its use.",
                               {{"use", std::string(env::MemoryUseName(env::kMemoryUses[i]))}});
  }
  return gauges;
}

}  // namespace

HttpMetrics::HttpMetrics(env::MetricsSink& sink)
    : appends{Appends(sink, "false"), Appends(sink, "true")},
      append_seconds{AppendSeconds(sink, "false"), AppendSeconds(sink, "true")},
      appends_flushed(
          sink.GetCounter("rollout_appends_flushed_total", "Appends that waited for a flush.")),
      records_appended(sink.GetCounter("rollout_records_appended_total", "Rows acknowledged.")),
      append_errors(
          sink.GetCounter("rollout_add_errors_total", "Append requests that the engine failed.")),
      budget_rejections(sink.GetCounter("rollout_blob_budget_rejections_total",
                                        "Requests refused because memory was spent.")),
      flush_errors(sink.GetCounter("rollout_flush_errors_total", "Requested flushes that failed.")),
      blob_bytes(sink.GetHistogram("rollout_blob_bytes", "Payload bytes per append or download.")),
      body_timeouts(sink.GetCounter("http_request_body_timeouts_total",
                                    "Requests whose body stopped coming.")),
      stalled_responses(sink.GetCounter("http_shutdown_idle_responses_total",
                                        "Responses given up because the client took nothing.")),
      sink_(sink),
      stores_(sink.GetGauge("rollout_stores", "Registered stores.")),
      stores_resident_(sink.GetGauge("rollout_stores_resident", "Open store handles.")),
      stores_dirty_(
          sink.GetGauge("rollout_stores_dirty", "Stores that may have rows in no generation.")),
      stores_waiting_(sink.GetGauge("rollout_store_cache_waiting_requests",
                                    "Requests that wait for a place among the open stores.")),
      oldest_unflushed_(sink.GetGauge("rollout_oldest_unflushed_seconds",
                                      "Age of the oldest row in no generation.")),
      shards_retrying_(sink.GetGauge("rollout_wal_shards_retrying",
                                     "Shards whose flush fails and is tried again.")),
      shards_failed_(
          sink.GetGauge("rollout_wal_shards_failed", "Shards that only a reopen heals.")),
      shards_fenced_(
          sink.GetGauge("rollout_wal_shards_fenced", "Shards that a higher epoch owns.")),
      unflushed_bytes_(
          sink.GetGauge("rollout_wal_unflushed_bytes", "Memory of rows in no generation.")),
      memory_used_(sink.GetGauge("rollout_memory_used_bytes", "Memory charged to the budget.")),
      memory_limit_(sink.GetGauge("rollout_memory_limit_bytes", "The memory budget.")),
      memory_waiting_(
          sink.GetGauge("rollout_memory_waiting_requests", "Requests that wait for memory.")),
      memory_uses_(MemoryUses(sink)) {}

void HttpMetrics::SetCatalog(const engine::CatalogStatus& status) {
  stores_.Set(static_cast<double>(status.tables));
  stores_resident_.Set(static_cast<double>(status.resident));
  stores_dirty_.Set(static_cast<double>(status.dirty));
  stores_waiting_.Set(static_cast<double>(status.waiting));
  const env::Duration oldest = status.oldest_unflushed.value_or(env::Duration(0));
  oldest_unflushed_.Set(std::chrono::duration<double>(oldest).count());
  const engine::CatalogHealth& health = status.health;
  shards_retrying_.Set(static_cast<double>(health.retrying));
  shards_failed_.Set(static_cast<double>(health.failed));
  shards_fenced_.Set(static_cast<double>(health.fenced));
  unflushed_bytes_.Set(static_cast<double>(health.unflushed_bytes));
}

void HttpMetrics::SetMemory(const env::MemoryBudget& budget) {
  memory_used_.Set(static_cast<double>(budget.used()));
  memory_limit_.Set(static_cast<double>(budget.limit()));
  memory_waiting_.Set(static_cast<double>(budget.waiting()));
  for (size_t i = 0; i < env::kMemoryUses.size(); ++i)
    memory_uses_[i]->Set(static_cast<double>(budget.used(env::kMemoryUses[i])));
}

void HttpMetrics::CountRequest(std::string_view method, std::string_view path, int status,
                               double seconds) {
  Series series{};
  {
    const std::scoped_lock lock(mutex_);
    auto found = series_.find(KeyView(method, path, status));
    if (found == series_.end()) {
      const env::Labels labels = {{"method", std::string(method)},
                                  {"path", std::string(path)},
                                  {"status", std::to_string(status)}};
      const Series made{
          &sink_.GetCounter("http_requests_total", "HTTP requests answered.", labels),
          &sink_.GetHistogram("http_request_duration_seconds",
                              "HTTP requests from the parsed header to the last byte.", labels)};
      found = series_.emplace(Key(method, path, status), made).first;
    }
    series = found->second;
  }
  series.requests->Add();
  series.seconds->Observe(seconds);
}

}  // namespace sarissa::server
