// Latencies of one run in log-linear buckets, as HdrHistogram has them: 128 linear steps to each
// power of two, so a quantile is off by less than 1 % whatever its size, and recording costs an
// increment. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace sarissa::bench {

class LatencyHistogram {
 public:
  void Record(uint64_t nanoseconds) {
    ++counts_[BucketOf(nanoseconds)];
    ++total_;
  }

  uint64_t total() const { return total_; }

  // The highest value of the bucket in which the quantile falls; 0 of an empty histogram.
  uint64_t Quantile(double quantile) const {
    if (total_ == 0) return 0;
    const auto rank = static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(total_)));
    const uint64_t wanted = std::clamp<uint64_t>(rank, 1, total_);
    uint64_t seen = 0;
    for (size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += counts_[bucket];
      if (seen >= wanted) return HighestValueOf(bucket);
    }
    return HighestValueOf(counts_.size() - 1);
  }

 private:
  static constexpr unsigned kStepBits = 7;
  static constexpr uint64_t kSteps = uint64_t{1} << kStepBits;
  // Values below kSteps have buckets of their own; every further power of two has kSteps of them.
  static constexpr size_t kBuckets = (64 - kStepBits + 1) << kStepBits;

  static size_t BucketOf(uint64_t value) {
    if (value < kSteps) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kStepBits;
    return (size_t{shift + 1} << kStepBits) + ((value >> shift) & (kSteps - 1));
  }

  static uint64_t HighestValueOf(size_t bucket) {
    if (bucket < kSteps) return bucket;
    const size_t shift = (bucket >> kStepBits) - 1;
    const uint64_t lowest = (kSteps + (bucket & (kSteps - 1))) << shift;
    return lowest + ((uint64_t{1} << shift) - 1);
  }

  std::array<uint64_t, kBuckets> counts_{};
  uint64_t total_ = 0;
};

}  // namespace sarissa::bench
