// One memory budget for the process (P8, S12): what a request or memtable pins is charged before it
// is allocated.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/error.h"

namespace sarissa::env {

class MemoryBudget;

// A charged amount, given back when it dies. Move-only. The budget must outlive it.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { Release(); }

  int64_t bytes() const { return bytes_; }
  void Release();
  // Takes over what `other` holds (same budget).
  void Merge(Reservation other);
  // Gives back all above `bytes`; never grows.
  void ShrinkTo(int64_t bytes);

 private:
  friend class MemoryBudget;
  Reservation(MemoryBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}

  MemoryBudget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

// Thread safe, lock free.
class MemoryBudget {
 public:
  // limit 0 = no limit.
  explicit MemoryBudget(int64_t limit_bytes) : limit_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // kOverloaded when the limit would be passed; nothing is charged then. `what` names the user in
  // the message. A single request larger than the whole budget is admitted when nothing else is
  // charged.
  Result<Reservation> Reserve(int64_t bytes, const char* what);
  // Charges without asking: for memory that exists already (replay).
  Reservation Force(int64_t bytes);

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }

 private:
  friend class Reservation;
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

}  // namespace sarissa::env
