#include "env/memory_budget.h"

namespace sarissa::env {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Reservation::Release() {
  if (budget_ == nullptr) return;
  budget_->used_.fetch_sub(bytes_, std::memory_order_relaxed);
  budget_ = nullptr;
  bytes_ = 0;
}

void Reservation::Merge(Reservation other) {
  if (other.budget_ == nullptr) return;
  SARISSA_CHECK(budget_ == nullptr || budget_ == other.budget_,
                "merging reservations of two budgets");
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ += std::exchange(other.bytes_, 0);
}

void Reservation::ShrinkTo(int64_t bytes) {
  if (budget_ == nullptr || bytes >= bytes_) return;
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  budget_->used_.fetch_sub(bytes_ - bytes, std::memory_order_relaxed);
  bytes_ = bytes;
}

Result<Reservation> MemoryBudget::Reserve(int64_t bytes, const char* what) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  // Relaxed throughout: only the sum matters, it publishes nothing else.
  int64_t used = used_.load(std::memory_order_relaxed);
  for (;;) {
    // Written as a subtraction because the sum could overflow.
    const bool fits = limit_ == 0 || used == 0 || bytes <= limit_ - used;
    if (!fits) {
      return Error(ErrorKind::kOverloaded, "{} needs {} bytes of memory; {} of {} are in use", what,
                   bytes, used, limit_);
    }
    if (used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed))
      return Reservation(this, bytes);
  }
}

Reservation MemoryBudget::Force(int64_t bytes) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  used_.fetch_add(bytes, std::memory_order_relaxed);
  return Reservation(this, bytes);
}

}  // namespace sarissa::env
