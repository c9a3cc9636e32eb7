// Where counters go. Rooms below server/ count through this interface; server/ gives it a
// Prometheus side. Names and labels are those of the contract (reference dashboards use them).
// Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sarissa::env {

using Labels = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void Add(double amount = 1) = 0;
};
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void Set(double value) = 0;
  virtual void Add(double amount) = 0;
};
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void Observe(double value) = 0;
};

// Returned references live as long as the sink; asking twice for the same name and labels gives the
// same object, so callers keep the reference and do not ask on hot paths.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual Counter& GetCounter(std::string_view name, std::string_view help,
                              const Labels& labels = {}) = 0;
  virtual Gauge& GetGauge(std::string_view name, std::string_view help,
                          const Labels& labels = {}) = 0;
  // Buckets suit seconds.
  virtual Histogram& GetHistogram(std::string_view name, std::string_view help,
                                  const Labels& labels = {}) = 0;
};

// A sink that forgets everything.
MetricsSink& NullMetrics();

}  // namespace sarissa::env
