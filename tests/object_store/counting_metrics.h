// A sink that remembers counters: totals by name, over all labels. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "env/metrics.h"

namespace sarissa::object_store::testing {

class CountingMetrics final : public env::MetricsSink {
 public:
  env::Counter& GetCounter(std::string_view name, std::string_view, const env::Labels&) override {
    const std::scoped_lock lock(mutex_);
    auto& counter = counters_[std::string(name)];
    if (counter == nullptr) counter = std::make_unique<Total>();
    return *counter;
  }
  env::Gauge& GetGauge(std::string_view name, std::string_view help,
                       const env::Labels& labels) override {
    return env::NullMetrics().GetGauge(name, help, labels);
  }
  env::Histogram& GetHistogram(std::string_view name, std::string_view help,
                               const env::Labels& labels) override {
    return env::NullMetrics().GetHistogram(name, help, labels);
  }

  double total(std::string_view name) const {
    const std::scoped_lock lock(mutex_);
    const auto found = counters_.find(name);
    return found == counters_.end() ? 0 : found->second->value();
  }

 private:
  class Total final : public env::Counter {
   public:
    void Add(double amount) override {
      const std::scoped_lock lock(mutex_);
      value_ += amount;
    }
    double value() const {
      const std::scoped_lock lock(mutex_);
      return value_;
    }

   private:
    mutable std::mutex mutex_;
    double value_ = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Total>, std::less<>> counters_;
};

inline constexpr char kIgnoredSidecars[] = "object_store_checksum_sidecars_ignored_total";
inline constexpr char kChecksumFailures[] = "object_store_checksum_failures_total";

}  // namespace sarissa::object_store::testing
