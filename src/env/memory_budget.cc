#include "env/memory_budget.h"

#include <vector>

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
  std::exchange(budget_, nullptr)->GiveBack(std::exchange(bytes_, 0));
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
  budget_->GiveBack(std::exchange(bytes_, bytes) - bytes);
}

bool MemoryBudget::TryCharge(int64_t bytes) {
  // Only the sum matters, it publishes nothing else; sequentially consistent because a waiter that
  // queues up and a charge that is given back must see each other (GiveBack).
  int64_t used = used_.load();
  for (;;) {
    // Written as a subtraction because the sum could overflow.
    const bool fits = limit_ == 0 || used == 0 || bytes <= limit_ - used;
    if (!fits) return false;
    if (used_.compare_exchange_weak(used, used + bytes)) return true;
  }
}

Status MemoryBudget::Refusal(int64_t bytes, const char* what) const {
  return Error(ErrorKind::kOverloaded, "{} needs {} bytes of memory; {} of {} are in use", what,
               bytes, used(), limit_);
}

Result<Reservation> MemoryBudget::Reserve(int64_t bytes, const char* what) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  if (TryCharge(bytes)) return Reservation(this, bytes);
  return Refusal(bytes, what);
}

Future<MemoryBudget::SharedReservation> MemoryBudget::ReserveWithin(int64_t bytes, const char* what,
                                                                    Executor& executor,
                                                                    Duration patience) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  if (waiting() == 0 && TryCharge(bytes)) {
    return Future<SharedReservation>::Ready(
        std::make_shared<Reservation>(Reservation(this, bytes)));
  }
  auto waiter = std::make_shared<Waiter>();
  waiter->bytes = bytes;
  Future<SharedReservation> future = waiter->promise.future();
  {
    const std::scoped_lock lock(queue_->mutex);
    queue_->waiters.push_back(waiter);
    waiting_.fetch_add(1);
  }
  // What was given back between the try and the queueing woke nobody.
  Admit();
  const auto give_up = [this, queue = std::weak_ptr<Queue>(queue_), waiter, bytes, what] {
    const auto alive = queue.lock();
    if (alive == nullptr) return;
    {
      const std::scoped_lock lock(alive->mutex);
      if (std::erase(alive->waiters, waiter) == 0) return;
      waiting_.fetch_sub(1);
    }
    waiter->promise.Set(Refusal(bytes, what));
    // Whoever queued behind it may fit.
    Admit();
  };
  const TimerId timer = executor.PostAfter(patience, give_up);
  if (timer == 0) {
    give_up();
    return future;
  }
  future.Then(executor, [&executor, timer](const auto&) { executor.CancelTimer(timer); });
  return future;
}

void MemoryBudget::GiveBack(int64_t bytes) {
  used_.fetch_sub(bytes);
  if (waiting_.load() > 0) Admit();
}

void MemoryBudget::Admit() {
  std::vector<std::shared_ptr<Waiter>> admitted;
  {
    const std::scoped_lock lock(queue_->mutex);
    while (!queue_->waiters.empty() && TryCharge(queue_->waiters.front()->bytes)) {
      admitted.push_back(std::move(queue_->waiters.front()));
      queue_->waiters.pop_front();
      waiting_.fetch_sub(1);
    }
  }
  for (const auto& waiter : admitted) {
    waiter->promise.Set(std::make_shared<Reservation>(Reservation(this, waiter->bytes)));
  }
}

Reservation MemoryBudget::Force(int64_t bytes) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  used_.fetch_add(bytes);
  return Reservation(this, bytes);
}

}  // namespace sarissa::env
