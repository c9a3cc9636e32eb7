#include "env/memory_budget.h"

#include <algorithm>
#include <vector>

namespace sarissa::env {
namespace {

// More is charged as this much, so that no sum overflows.
constexpr int64_t kMostBytes = INT64_MAX / 4;

}  // namespace

std::string_view MemoryUseName(MemoryUse use) {
  switch (use) {
    case MemoryUse::kBodies:
      return "bodies";
    case MemoryUse::kMemtables:
      return "memtables";
    case MemoryUse::kCaches:
      return "caches";
    case MemoryUse::kScans:
      return "scans";
    case MemoryUse::kDownloads:
      return "downloads";
    case MemoryUse::kMerges:
      return "merges";
  }
  return "bodies";
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    use_ = other.use_;
  }
  return *this;
}

void Reservation::Release() {
  if (budget_ == nullptr) return;
  std::exchange(budget_, nullptr)->GiveBack(std::exchange(bytes_, 0), use_);
}

void Reservation::Merge(Reservation other) {
  if (other.budget_ == nullptr) return;
  SARISSA_CHECK(budget_ == nullptr || budget_ == other.budget_,
                "merging reservations of two budgets");
  if (budget_ == nullptr) use_ = other.use_;
  other.Relabel(use_);
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ += std::exchange(other.bytes_, 0);
}

void Reservation::ShrinkTo(int64_t bytes) {
  if (budget_ == nullptr || bytes >= bytes_) return;
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  budget_->GiveBack(std::exchange(bytes_, bytes) - bytes, use_);
}

Reservation Reservation::Split(int64_t bytes) {
  if (budget_ == nullptr) return {};
  const int64_t taken = std::clamp<int64_t>(bytes, 0, bytes_);
  bytes_ -= taken;
  return Reservation(budget_, taken, use_);
}

void Reservation::Relabel(MemoryUse use) {
  const MemoryUse before = std::exchange(use_, use);
  if (budget_ != nullptr && before != use) budget_->Relabel(bytes_, before, use);
}

bool MemoryBudget::TryCharge(int64_t bytes, MemoryUse use) {
  // Only the sum matters, it publishes nothing else; sequentially consistent because a waiter that
  // queues up and a charge that is given back must see each other (GiveBack).
  int64_t asked = asked_.load();
  for (;;) {
    const int64_t used = asked + Of(MemoryUse::kCaches).load();
    const bool fits = limit_ == 0 || asked == 0 || bytes <= limit_ - used;
    if (!fits) return false;
    if (asked_.compare_exchange_weak(asked, asked + bytes)) break;
  }
  Of(use).fetch_add(bytes);
  return true;
}

Status MemoryBudget::Refusal(int64_t bytes, const char* what) const {
  return Error(ErrorKind::kOverloaded, "{} needs {} bytes of memory; {} of {} are in use", what,
               bytes, used(), limit_);
}

Result<Reservation> MemoryBudget::Reserve(int64_t bytes, MemoryUse use, const char* what) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  SARISSA_CHECK(use != MemoryUse::kCaches, "{}: caches do not ask", what);
  bytes = std::min(bytes, kMostBytes);
  if (TryCharge(bytes, use)) return Reservation(this, bytes, use);
  return Refusal(bytes, what);
}

Future<MemoryBudget::SharedReservation> MemoryBudget::ReserveWithin(int64_t bytes, MemoryUse use,
                                                                    const char* what,
                                                                    Executor& executor,
                                                                    Duration patience) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  SARISSA_CHECK(use != MemoryUse::kCaches, "{}: caches do not ask", what);
  bytes = std::min(bytes, kMostBytes);
  if (waiting() == 0 && TryCharge(bytes, use)) {
    return Future<SharedReservation>::Ready(
        std::make_shared<Reservation>(Reservation(this, bytes, use)));
  }
  auto waiter = std::make_shared<Waiter>();
  waiter->bytes = bytes;
  waiter->use = use;
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

void MemoryBudget::GiveBack(int64_t bytes, MemoryUse use) {
  Of(use).fetch_sub(bytes);
  if (use != MemoryUse::kCaches) asked_.fetch_sub(bytes);
  if (waiting_.load() > 0) Admit();
}

void MemoryBudget::Relabel(int64_t bytes, MemoryUse from, MemoryUse to) {
  Of(from).fetch_sub(bytes);
  Of(to).fetch_add(bytes);
  if (from == MemoryUse::kCaches) asked_.fetch_add(bytes);
  if (to != MemoryUse::kCaches) return;
  asked_.fetch_sub(bytes);
  // Perhaps nothing but caches is left.
  if (waiting_.load() > 0) Admit();
}

void MemoryBudget::Admit() {
  std::vector<std::shared_ptr<Waiter>> admitted;
  {
    const std::scoped_lock lock(queue_->mutex);
    while (!queue_->waiters.empty() &&
           TryCharge(queue_->waiters.front()->bytes, queue_->waiters.front()->use)) {
      admitted.push_back(std::move(queue_->waiters.front()));
      queue_->waiters.pop_front();
      waiting_.fetch_sub(1);
    }
  }
  for (const auto& waiter : admitted) {
    waiter->promise.Set(
        std::make_shared<Reservation>(Reservation(this, waiter->bytes, waiter->use)));
  }
}

Reservation MemoryBudget::Force(int64_t bytes, MemoryUse use) {
  SARISSA_CHECK(bytes >= 0, "a reservation of {} bytes", bytes);
  bytes = std::min(bytes, kMostBytes);
  if (use != MemoryUse::kCaches) asked_.fetch_add(bytes);
  Of(use).fetch_add(bytes);
  return Reservation(this, bytes, use);
}

}  // namespace sarissa::env
