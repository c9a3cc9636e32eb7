// The Prometheus side of env::MetricsSink, and the text that /metrics answers with.
//
// Thread safe. Asking for a metric takes a lock; counting does not.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "env/metrics.h"

namespace sarissa::server {

class PrometheusMetrics final : public env::MetricsSink {
 public:
  PrometheusMetrics();
  ~PrometheusMetrics() override;

  env::Counter& GetCounter(std::string_view name, std::string_view help,
                           const env::Labels& labels) override;
  env::Gauge& GetGauge(std::string_view name, std::string_view help,
                       const env::Labels& labels) override;
  // Buckets of a name that ends in "_bytes" suit sizes, all others seconds.
  env::Histogram& GetHistogram(std::string_view name, std::string_view help,
                               const env::Labels& labels) override;

  // Text format 0.0.4, with the figures of this process.
  std::string Render();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace sarissa::server
