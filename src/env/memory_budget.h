// One memory budget for the process (P8, S12): what a request or memtable pins is charged before it
// is allocated, under the use that it serves.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "env/executor.h"
#include "env/future.h"

namespace sarissa::env {

class MemoryBudget;

// What charged memory serves.
enum class MemoryUse : uint8_t {
  kBodies,     // append bodies, and the rows decoded from them until a memtable takes them
  kMemtables,  // rows that are in no generation yet, with their index
  kCaches,     // what open tables keep: manifests, generation readers, key maps
  kScans,      // batches and text of the lists that are being sent
  kDownloads,  // payloads that are being sent
  kMerges,     // keys and batches of merges
};
inline constexpr std::array kMemoryUses = {MemoryUse::kBodies,    MemoryUse::kMemtables,
                                           MemoryUse::kCaches,    MemoryUse::kScans,
                                           MemoryUse::kDownloads, MemoryUse::kMerges};
// "memtables": a name for metrics, never changed.
std::string_view MemoryUseName(MemoryUse use);

// A charged amount of one use, given back when it dies. Move-only. The budget must outlive it.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        use_(other.use_) {}
  Reservation& operator=(Reservation&& other) noexcept;
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() { Release(); }

  int64_t bytes() const { return bytes_; }
  void Release();
  // Takes over what `other` holds (same budget); an empty reservation takes its use over, too, one
  // that holds something keeps its own.
  void Merge(Reservation other);
  // Gives back all above `bytes`; never grows.
  void ShrinkTo(int64_t bytes);
  // Takes `bytes` out, all of it at most, into a reservation of its own.
  Reservation Split(int64_t bytes);
  // The same memory serves something else from here on.
  void Relabel(MemoryUse use);

 private:
  friend class MemoryBudget;
  Reservation(MemoryBudget* budget, int64_t bytes, MemoryUse use)
      : budget_(budget), bytes_(bytes), use_(use) {}

  MemoryBudget* budget_ = nullptr;
  int64_t bytes_ = 0;
  MemoryUse use_ = MemoryUse::kBodies;
};

// Every charged byte counts for exactly one use, so the uses sum up to `used`; while calls are
// running, each number is right by itself.
//
// Thread safe. Charging and giving back are lock free while nobody waits.
class MemoryBudget {
 public:
  // limit 0 = no limit.
  explicit MemoryBudget(int64_t limit_bytes) : limit_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // kOverloaded when the limit would be passed; nothing is charged then. `what` names the user in
  // the message. A single request larger than the whole budget is admitted when nothing but caches
  // is charged: they hold memory without an end, and would keep it out for ever. For every use but
  // caches.
  Result<Reservation> Reserve(int64_t bytes, MemoryUse use, const char* what);
  Result<Reservation> Reserve(int64_t bytes, const char* what) {
    return Reserve(bytes, MemoryUse::kBodies, what);
  }
  // The same, but waits for room: completes when there is, or with kOverloaded after `patience`.
  // First come, first served, so that a large request is not passed by small ones for ever.
  // `executor` runs the end of the wait and outlives the budget's users. Reservations are
  // move-only, futures share their result: the one waiter takes it out of the pointer.
  using SharedReservation = std::shared_ptr<Reservation>;
  Future<SharedReservation> ReserveWithin(int64_t bytes, MemoryUse use, const char* what,
                                          Executor& executor, Duration patience);
  // Charges without asking: for memory that exists already (replay), and for caches.
  Reservation Force(int64_t bytes, MemoryUse use);
  Reservation Force(int64_t bytes) { return Force(bytes, MemoryUse::kMemtables); }

  int64_t used() const { return asked_.load(std::memory_order_relaxed) + used(MemoryUse::kCaches); }
  int64_t used(MemoryUse use) const { return Of(use).load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }
  // Callers that wait for room.
  int64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  friend class Reservation;
  struct Waiter {
    int64_t bytes = 0;
    MemoryUse use = MemoryUse::kBodies;
    Promise<SharedReservation> promise;
  };
  // Outlives the budget in the timers of waiters.
  struct Queue {
    std::mutex mutex;  // leaf; promises are completed after it is released
    std::deque<std::shared_ptr<Waiter>> waiters;
  };

  std::atomic<int64_t>& Of(MemoryUse use) { return uses_[static_cast<size_t>(use)]; }
  const std::atomic<int64_t>& Of(MemoryUse use) const { return uses_[static_cast<size_t>(use)]; }
  bool TryCharge(int64_t bytes, MemoryUse use);
  void GiveBack(int64_t bytes, MemoryUse use);
  void Relabel(int64_t bytes, MemoryUse from, MemoryUse to);
  void Admit();
  Status Refusal(int64_t bytes, const char* what) const;

  const int64_t limit_;
  std::atomic<int64_t> asked_{0};  // every use but caches
  std::array<std::atomic<int64_t>, kMemoryUses.size()> uses_{};
  std::atomic<int64_t> waiting_{0};
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

}  // namespace sarissa::env
