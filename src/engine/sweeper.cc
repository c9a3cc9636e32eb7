#include "engine/sweeper.h"

#include <algorithm>

namespace sarissa::engine {

void Sweeper::Schedule() {
  const std::scoped_lock lock(mutex_);
  if (stopped_) return;
  timer_ = env_.storage->PostAfter(period_, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Pass();
  });
}

void Sweeper::Stop() {
  env::TimerId timer = 0;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    timer = timer_;
  }
  env_.storage->CancelTimer(timer);
}

SweeperStatus Sweeper::status() const {
  const std::scoped_lock lock(mutex_);
  SweeperStatus status = status_;
  for (const auto& [name, attempt] : attempts_) status.running += attempt.running ? 1 : 0;
  return status;
}

void Sweeper::Pass() {
  {
    const auto tables = tables_.lock();
    if (tables == nullptr) return;
    tables->SealOpenTables();
  }
  StartCold();
  {
    const std::scoped_lock lock(mutex_);
    ++status_.passes;
  }
  Schedule();
}

void Sweeper::StartCold() {
  const auto tables = tables_.lock();
  if (tables == nullptr) return;
  const std::vector<std::string> cold = tables->ColdDirty();
  const env::MonotonicTime now = env_.clock->Now();
  std::vector<std::pair<std::string, uint64_t>> started;
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_) return;
    // What is not dirty any more, or open by now, needs no memory of its failures; a success is
    // remembered for its delay, so that others come first.
    std::erase_if(attempts_, [&](const auto& entry) {
      return !entry.second.running && entry.second.not_before <= now &&
             !std::binary_search(cold.begin(), cold.end(), entry.first);
    });
    for (const std::string& name : cold) {
      if (places_taken_ >= kParallel) break;
      Attempt& attempt = attempts_[name];
      if (attempt.running || attempt.not_before > now) continue;
      attempt.running = true;
      attempt.has_place = true;
      attempt.number = next_number_++;
      ++places_taken_;
      started.emplace_back(name, attempt.number);
    }
  }
  for (const auto& [name, number] : started) Run(*tables, name, number);
}

void Sweeper::Run(SweptTables& tables, const std::string& name, uint64_t number) {
  env_.storage->PostAfter(kPlaceLimit, [weak = weak_from_this(), name, number] {
    if (const auto self = weak.lock()) self->GiveUpPlace(name, number);
  });
  tables.FlushCold(name)
      .WithDeadline(*env_.storage, kTableLimit, "flushing store '" + name + "'")
      .Then(*env_.storage, [weak = weak_from_this(), name, number](const auto& flushed) {
        if (const auto self = weak.lock()) self->Finish(name, number, flushed.status());
      });
}

void Sweeper::GiveUpPlace(const std::string& name, uint64_t number) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = attempts_.find(name);
    if (found == attempts_.end() || found->second.number != number) return;
    if (!found->second.running || !found->second.has_place) return;
    found->second.has_place = false;
    --places_taken_;
    ++status_.timed_out;
  }
  StartCold();
}

void Sweeper::Finish(const std::string& name, uint64_t number, const Status& status) {
  bool tell = false;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = attempts_.find(name);
    if (found == attempts_.end() || found->second.number != number) return;
    Attempt& attempt = found->second;
    attempt.running = false;
    if (std::exchange(attempt.has_place, false)) --places_taken_;
    if (status.ok()) {
      ++status_.flushed;
      // Should it be back on the list at once, others come first.
      attempt.delay = {};
      attempt.not_before = env_.clock->Now() + kFirstDelay;
      attempt.cause.clear();
    } else {
      attempt.delay = std::clamp<env::Duration>(attempt.delay * 2, kFirstDelay, kLastDelay);
      attempt.not_before = env_.clock->Now() + attempt.delay;
      tell = attempt.cause != status.message();
      attempt.cause = status.message();
    }
  }
  if (tell) {
    env::Tell(env_, env::EventLog::Level::kError, "flush_of_dirty_store_failed",
              {{"store", name},
               {"kind", std::string(ErrorKindName(KindOf(status)))},
               {"error", status.message()}});
  }
  StartCold();
}

}  // namespace sarissa::engine
