#include "server/prometheus_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>

#include <map>
#include <mutex>
#include <utility>

#include "env/posix/process_stats.h"

namespace sarissa::server {
namespace {

class CounterSide final : public env::Counter {
 public:
  explicit CounterSide(prometheus::Counter& counter) : counter_(counter) {}
  void Add(double amount) override { counter_.Increment(amount); }

 private:
  prometheus::Counter& counter_;
};

class GaugeSide final : public env::Gauge {
 public:
  explicit GaugeSide(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void Set(double value) override { gauge_.Set(value); }
  void Add(double amount) override { gauge_.Increment(amount); }

 private:
  prometheus::Gauge& gauge_;
};

class HistogramSide final : public env::Histogram {
 public:
  explicit HistogramSide(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void Observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};

prometheus::Histogram::BucketBoundaries BucketsFor(std::string_view name) {
  if (name.ends_with("_bytes")) {
    return {1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30};
  }
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// Metrics of one kind: families by name, members by name and labels.
template <typename Family, typename Side>
struct Kind {
  std::map<std::string, Family*, std::less<>> families;
  std::map<std::pair<std::string, prometheus::Labels>, std::unique_ptr<Side>> members;

  template <typename Builder, typename... Args>
  Side& Get(prometheus::Registry& registry, const Builder& builder, std::string_view name,
            std::string_view help, const env::Labels& labels, const Args&... args) {
    const prometheus::Labels members_labels(labels.begin(), labels.end());
    std::unique_ptr<Side>& member = members[{std::string(name), members_labels}];
    if (member != nullptr) return *member;
    Family*& family = families[std::string(name)];
    if (family == nullptr) {
      family = &builder().Name(std::string(name)).Help(std::string(help)).Register(registry);
    }
    member = std::make_unique<Side>(family->Add(members_labels, args...));
    return *member;
  }
};

}  // namespace

struct PrometheusMetrics::State {
  std::mutex mutex;  // leaf
  prometheus::Registry registry;
  Kind<prometheus::Family<prometheus::Counter>, CounterSide> counters;
  Kind<prometheus::Family<prometheus::Gauge>, GaugeSide> gauges;
  Kind<prometheus::Family<prometheus::Histogram>, HistogramSide> histograms;
};

PrometheusMetrics::PrometheusMetrics() : state_(std::make_unique<State>()) {}
PrometheusMetrics::~PrometheusMetrics() = default;

env::Counter& PrometheusMetrics::GetCounter(std::string_view name, std::string_view help,
                                            const env::Labels& labels) {
  const std::scoped_lock lock(state_->mutex);
  return state_->counters.Get(state_->registry, prometheus::BuildCounter, name, help, labels);
}

env::Gauge& PrometheusMetrics::GetGauge(std::string_view name, std::string_view help,
                                        const env::Labels& labels) {
  const std::scoped_lock lock(state_->mutex);
  return state_->gauges.Get(state_->registry, prometheus::BuildGauge, name, help, labels);
}

env::Histogram& PrometheusMetrics::GetHistogram(std::string_view name, std::string_view help,
                                                const env::Labels& labels) {
  const std::scoped_lock lock(state_->mutex);
  return state_->histograms.Get(state_->registry, prometheus::BuildHistogram, name, help, labels,
                                BucketsFor(name));
}

std::string PrometheusMetrics::Render() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    GetGauge("process_cpu_seconds_total", "User and system CPU time of this process.", {})
        .Set(Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  }
  GetGauge("process_resident_memory_bytes", "Resident set of this process.", {})
      .Set(static_cast<double>(env::ResidentBytes()));
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace sarissa::server
