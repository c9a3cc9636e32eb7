// One memory budget for the process (P8, S12): what a request or memtable pins is charged before it
// is allocated.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "env/executor.h"
#include "env/future.h"

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

// Thread safe. Charging and giving back are lock free while nobody waits.
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
  // The same, but waits for room: completes when there is, or with kOverloaded after `patience`.
  // First come, first served, so that a large request is not passed by small ones for ever.
  // `executor` runs the end of the wait and outlives the budget's users. Reservations are
  // move-only, futures share their result: the one waiter takes it out of the pointer.
  using SharedReservation = std::shared_ptr<Reservation>;
  Future<SharedReservation> ReserveWithin(int64_t bytes, const char* what, Executor& executor,
                                          Duration patience);
  // Charges without asking: for memory that exists already (replay).
  Reservation Force(int64_t bytes);

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }
  // Callers that wait for room.
  int64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  friend class Reservation;
  struct Waiter {
    int64_t bytes = 0;
    Promise<SharedReservation> promise;
  };
  // Outlives the budget in the timers of waiters.
  struct Queue {
    std::mutex mutex;  // leaf; promises are completed after it is released
    std::deque<std::shared_ptr<Waiter>> waiters;
  };

  bool TryCharge(int64_t bytes);
  void GiveBack(int64_t bytes);
  void Admit();
  Status Refusal(int64_t bytes, const char* what) const;

  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> waiting_{0};
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

}  // namespace sarissa::env
