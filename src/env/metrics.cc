#include "env/metrics.h"

namespace sarissa::env {
namespace {

class NullCounter final : public Counter {
 public:
  void Add(double) override {}
};

class NullGauge final : public Gauge {
 public:
  void Set(double) override {}
  void Add(double) override {}
};

class NullHistogram final : public Histogram {
 public:
  void Observe(double) override {}
};

class NullSink final : public MetricsSink {
 public:
  Counter& GetCounter(std::string_view, std::string_view, const Labels&) override {
    return counter_;
  }
  Gauge& GetGauge(std::string_view, std::string_view, const Labels&) override { return gauge_; }
  Histogram& GetHistogram(std::string_view, std::string_view, const Labels&) override {
    return histogram_;
  }

 private:
  NullCounter counter_;
  NullGauge gauge_;
  NullHistogram histogram_;
};

}  // namespace

MetricsSink& NullMetrics() {
  static NullSink sink;
  return sink;
}

}  // namespace sarissa::env
