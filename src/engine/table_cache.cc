#include "engine/table_cache.h"

#include <algorithm>
#include <utility>

namespace sarissa::engine {
namespace {

// Drains that run at once.
constexpr uint64_t kMaxDrains = 16;
// Tables that did not drain may stay beside the capacity up to this many, or as many again.
constexpr uint64_t kLeastBeside = 64;

uint64_t SoftLimit(uint64_t capacity) {
  return capacity <= 1 ? 1 : capacity - std::max<uint64_t>(1, capacity / 8);
}

}  // namespace

// The lease: ends with its last copy.
class TableCache::Lease {
 public:
  Lease(std::shared_ptr<TableCache> cache, std::string name, uint64_t id, CachedPtr table)
      : cache_(std::move(cache)), name_(std::move(name)), id_(id), table_(std::move(table)) {}
  ~Lease() { cache_->Release(name_, id_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Table* table() const { return &table_->table(); }

 private:
  const std::shared_ptr<TableCache> cache_;
  const std::string name_;
  const uint64_t id_;
  const CachedPtr table_;
};

Status TableCache::Closed() {
  return Error(ErrorKind::kCancelled, "the server is shutting down");
}

void TableCache::RunAll(Actions& after) {
  for (auto& action : after) action();
}

env::Future<std::shared_ptr<Table>> TableCache::Find(const std::string& name, Opener opener) {
  Finder finder{std::move(opener), {}};
  auto future = finder.promise.future();
  Actions after;
  bool in_line = false;
  {
    const std::scoped_lock lock(mutex_);
    in_line = FindLocked(name, std::move(finder), after);
    Balance(after);
  }
  RunAll(after);
  if (future.IsReady()) return future;
  // The wait in line has its own end, and the open begins after it.
  return future.WithDeadline(*env_.storage, options_.open_timeout * (in_line ? 2 : 1),
                             "opening store '" + name + "'");
}

bool TableCache::FindLocked(const std::string& name, Finder finder, Actions& after) {
  // Promises are move-only, actions are copied.
  auto promise = std::make_shared<env::Promise<std::shared_ptr<Table>>>(std::move(finder.promise));
  if (closed_) {
    after.push_back([promise] { promise->Set(Closed()); });
    return false;
  }
  const auto found = slots_.find(name);
  if (found != slots_.end()) {
    Slot& slot = found->second;
    if (slot.state == State::kOpen || slot.state == State::kDraining) {
      after.push_back([promise, lease = LeaseLocked(name, slot)] { promise->Set(lease); });
      return false;
    }
    slot.finders.push_back({std::move(finder.opener), std::move(*promise)});
    return false;
  }
  finder.promise = std::move(*promise);
  if (Occupied() < options_.capacity) {
    StartOpening(name, std::move(finder), after);
    return false;
  }
  const uint64_t number = next_id_++;
  const env::TimerId timer = env_.storage->PostAfter(
      options_.open_timeout, [weak = weak_from_this(), number, capacity = options_.capacity] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        std::optional<InLine> late;
        {
          const std::scoped_lock lock(self->mutex_);
          const auto waiting = std::find_if(self->line_.begin(), self->line_.end(),
                                            [&](const InLine& w) { return w.number == number; });
          if (waiting == self->line_.end()) return;
          late = std::move(*waiting);
          self->line_.erase(waiting);
        }
        late->finder.promise.Set(
            Error(ErrorKind::kOverloaded, "all {} places for open stores are in use", capacity));
      });
  line_.push_back({name, std::move(finder), number});
  if (timer == 0) {
    auto stopped = std::make_shared<Finder>(std::move(line_.back().finder));
    line_.pop_back();
    after.push_back([stopped] { stopped->promise.Set(Closed()); });
    return false;
  }
  line_.back().timer = timer;
  return true;
}

void TableCache::StartOpening(const std::string& name, Finder finder, Actions& after) {
  Slot& slot = slots_[name];
  slot.id = next_id_++;
  slot.state = State::kOpening;
  Opener opener = finder.opener;
  slot.finders.push_back(std::move(finder));
  after.push_back([self = shared_from_this(), name, id = slot.id, opener = std::move(opener)] {
    env::Executor& storage = *self->env_.storage;
    const bool posted = storage.Post([self, name, id, opener, &storage] {
      opener().Then(storage, [self, name, id](const Result<CachedPtr>& opened) {
        self->FinishOpening(name, id, opened);
      });
    });
    if (!posted) self->FinishOpening(name, id, Closed());
  });
}

void TableCache::FinishOpening(const std::string& name, uint64_t id,
                               const Result<CachedPtr>& opened) {
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    Slot* slot = SlotWith(name, id);
    if (slot == nullptr || closed_) {
      // Shut meanwhile: what was opened has no rows of its own yet, or only replayed ones, which
      // are in the log.
      if (slot != nullptr) {
        auto finders = std::make_shared<std::vector<Finder>>(std::move(slot->finders));
        auto takers = std::make_shared<std::vector<env::Promise<Turn>>>(std::move(slot->takers));
        slots_.erase(name);
        after.push_back([finders, takers] {
          for (Finder& finder : *finders) finder.promise.Set(Closed());
          for (auto& taker : *takers) taker.Set(Closed());
        });
      }
      if (opened.ok()) {
        after.push_back([self = shared_from_this(), table = *opened] {
          (void)table->CloseForEviction(self->options_.drain_deadline);
        });
      }
    } else if (!opened.ok()) {
      auto finders = std::make_shared<std::vector<Finder>>(std::move(slot->finders));
      slot->finders.clear();
      after.push_back([finders, status = opened.status()] {
        for (Finder& finder : *finders) finder.promise.Set(status);
      });
      Leave(name, *slot, after);
    } else {
      slot->table = *opened;
      slot->state = State::kOpen;
      for (Finder& finder : slot->finders) {
        auto promise =
            std::make_shared<env::Promise<std::shared_ptr<Table>>>(std::move(finder.promise));
        after.push_back([promise, lease = LeaseLocked(name, *slot)] { promise->Set(lease); });
      }
      slot->finders.clear();
      if (!slot->takers.empty()) Leave(name, *slot, after);
    }
    Balance(after);
  }
  RunAll(after);
}

std::shared_ptr<Table> TableCache::LeaseLocked(const std::string& name, Slot& slot) {
  ++slot.leases;
  Unlist(slot);
  const auto lease = std::make_shared<Lease>(shared_from_this(), name, slot.id, slot.table);
  return std::shared_ptr<Table>(lease, lease->table());
}

void TableCache::Release(const std::string& name, uint64_t id) {
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    Slot* slot = SlotWith(name, id);
    if (slot == nullptr || --slot->leases > 0) return;
    if (slot->state == State::kOpen) List(name, *slot);
    if (slot->state == State::kOpen && !slot->evicters.empty())
      StartDraining(name, *slot, options_.drain_deadline, after);
    Balance(after);
  }
  RunAll(after);
}

void TableCache::List(const std::string& name, Slot& slot) {
  if (slot.listed) return;
  slot.place = unleased_.insert(unleased_.begin(), name);
  slot.listed = true;
}

void TableCache::Unlist(Slot& slot) {
  if (!slot.listed) return;
  unleased_.erase(slot.place);
  slot.listed = false;
}

void TableCache::Balance(Actions& after) {
  if (closed_) return;
  // Those in line first, so that nobody who comes later passes them; whose table is there by now
  // needs no place.
  for (auto waiting = line_.begin(); waiting != line_.end();) {
    const bool first = waiting == line_.begin();
    const bool place = first && Occupied() < options_.capacity;
    if (!place && !slots_.contains(waiting->name)) {
      ++waiting;
      continue;
    }
    InLine next = std::move(*waiting);
    waiting = line_.erase(waiting);
    after.push_back([this, timer = next.timer] { env_.storage->CancelTimer(timer); });
    FindLocked(next.name, std::move(next.finder), after);
  }
  const uint64_t wanted = SoftLimit(options_.capacity);
  while (draining_ < kMaxDrains) {
    const uint64_t staying = Occupied() - std::min(Occupied(), freeing_);
    const bool short_of_room = staying > wanted || line_.size() > freeing_;
    if (!short_of_room && beside_ == 0) break;
    std::string name;
    Slot* victim = Victim(short_of_room ? Among::kAll : Among::kBeside, &name);
    if (victim == nullptr) break;
    StartDraining(name, *victim, options_.drain_deadline, after);
  }
}

TableCache::Slot* TableCache::Victim(Among among, std::string* name) {
  const env::MonotonicTime now = env_.clock->Now();
  for (auto place = unleased_.rbegin(); place != unleased_.rend(); ++place) {
    Slot& slot = slots_.at(*place);
    if (slot.state != State::kOpen || slot.not_before > now) continue;
    if (among == Among::kBeside && !slot.beside) continue;
    *name = *place;
    return &slot;
  }
  return nullptr;
}

void TableCache::StartDraining(const std::string& name, Slot& slot, env::Duration deadline,
                               Actions& after) {
  Unlist(slot);
  ++draining_;
  slot.frees = !slot.beside;
  freeing_ += slot.frees ? 1 : 0;
  if (!slot.table->NeedsDrain()) return StartClosing(name, slot, deadline, Status::OK(), after);
  slot.state = State::kDraining;
  after.push_back([self = shared_from_this(), name, id = slot.id, deadline, table = slot.table] {
    table->Drain(deadline).Then(*self->env_.storage, [self, name, id, deadline](const auto& end) {
      self->FinishDraining(name, id, deadline, end.status());
    });
  });
}

void TableCache::EndDrain(Slot& slot) {
  --draining_;
  freeing_ -= std::exchange(slot.frees, false) ? 1 : 0;
}

void TableCache::FinishDraining(const std::string& name, uint64_t id, env::Duration deadline,
                                const Status& drained) {
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    Slot* slot = SlotWith(name, id);
    if (slot == nullptr || slot->state != State::kDraining) return;
    const bool wanted_again = slot->leases > 0;
    const bool failed = slot->table->NeedsDrain() && !drained.ok();
    const bool rows_since = drained.ok() && slot->table->NeedsDrain();
    if (!slot->takers.empty()) {
      slot->state = State::kOpen;
      EndDrain(*slot);
      Leave(name, *slot, after);
    } else if (failed || wanted_again || rows_since) {
      slot->state = State::kOpen;
      EndDrain(*slot);
      if (!wanted_again) List(name, *slot);
      if (failed) {
        ++evictions_undrained_;
        slot->not_before = env_.clock->Now() + options_.retry_delay;
        if (!slot->beside && beside_ < std::max(kLeastBeside, options_.capacity)) {
          slot->beside = true;
          ++beside_;
        }
        auto evicters =
            std::make_shared<std::vector<env::Promise<env::Unit>>>(std::move(slot->evicters));
        slot->evicters.clear();
        after.push_back([self = shared_from_this(), name, table = slot->table, drained, evicters] {
          for (auto& evicter : *evicters)
            evicter.Set(Error(ErrorKind::kFailedWriter, "store '{}' does not drain: {}", name,
                              drained.message()));
          self->hook_({name, table, false, drained});
        });
      } else if (slot->beside) {
        slot->beside = false;
        --beside_;
      }
      if (!wanted_again && !slot->evicters.empty()) StartDraining(name, *slot, deadline, after);
    } else {
      StartClosing(name, *slot, deadline, drained, after);
    }
    Balance(after);
  }
  RunAll(after);
}

void TableCache::StartClosing(const std::string& name, Slot& slot, env::Duration deadline,
                              Status drained, Actions& after) {
  slot.state = State::kClosing;
  after.push_back([self = shared_from_this(), name, id = slot.id, deadline, table = slot.table,
                   drained = std::move(drained)] {
    table->CloseForEviction(deadline).Then(
        *self->env_.storage, [self, name, id, drained, table](const auto& closed) {
          // Before anybody can open the table again.
          const Status status = drained.ok() ? closed.status() : drained;
          self->hook_({name, table, true, status});
          self->FinishClosing(name, id, status);
        });
  });
}

void TableCache::FinishClosing(const std::string& name, uint64_t id, const Status& closed) {
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    Slot* slot = SlotWith(name, id);
    if (slot == nullptr || slot->state != State::kClosing) return;
    EndDrain(*slot);
    ++evictions_;
    if (!closed.ok()) ++evictions_undrained_;
    auto evicters =
        std::make_shared<std::vector<env::Promise<env::Unit>>>(std::move(slot->evicters));
    slot->evicters.clear();
    after.push_back([evicters, table = std::move(slot->table)] {
      for (auto& evicter : *evicters) evicter.Set(env::Unit{});
    });
    slot->table = nullptr;
    Leave(name, *slot, after);
    Balance(after);
  }
  RunAll(after);
}

void TableCache::Leave(const std::string& name, Slot& slot, Actions& after) {
  Unlist(slot);
  if (slot.beside) {
    slot.beside = false;
    --beside_;
  }
  auto evicters = std::make_shared<std::vector<env::Promise<env::Unit>>>(std::move(slot.evicters));
  slot.evicters.clear();
  after.push_back([evicters] {
    for (auto& evicter : *evicters) evicter.Set(env::Unit{});
  });
  if (!slot.takers.empty()) {
    auto taker = std::make_shared<env::Promise<Turn>>(std::move(slot.takers.front()));
    slot.takers.erase(slot.takers.begin());
    slot.state = State::kTaken;
    slot.leases = 0;
    slot.id = next_id_++;  // leases that are still out belong to the table, not to the slot
    Turn turn{std::move(slot.table), nullptr};
    slot.table = nullptr;
    turn.end = std::shared_ptr<void>(nullptr, [self = shared_from_this(), name,
                                               id = slot.id](void*) { self->EndTurn(name, id); });
    after.push_back([taker, turn = std::move(turn)] { taker->Set(turn); });
    return;
  }
  std::vector<Finder> finders = std::move(slot.finders);
  slots_.erase(name);
  for (Finder& finder : finders) FindLocked(name, std::move(finder), after);
}

void TableCache::EndTurn(const std::string& name, uint64_t id) {
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    Slot* slot = SlotWith(name, id);
    if (slot == nullptr) return;
    Leave(name, *slot, after);
    Balance(after);
  }
  RunAll(after);
}

env::Future<TableCache::Turn> TableCache::Take(const std::string& name) {
  env::Promise<Turn> promise;
  auto future = promise.future();
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return env::Future<Turn>::Ready(Closed());
    TakeLocked(name, std::move(promise), after);
  }
  RunAll(after);
  return future;
}

env::Future<TableCache::Turn> TableCache::TakeIfOpen(const std::string& name,
                                                     const CachedTable* table) {
  env::Promise<Turn> promise;
  auto future = promise.future();
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return env::Future<Turn>::Ready(Closed());
    const auto found = slots_.find(name);
    const bool there = found != slots_.end() && found->second.table.get() == table;
    if (!there || found->second.state == State::kClosing) return env::Future<Turn>::Ready(Turn{});
    TakeLocked(name, std::move(promise), after);
  }
  RunAll(after);
  return future;
}

void TableCache::TakeLocked(const std::string& name, env::Promise<Turn> promise, Actions& after) {
  const auto [found, fresh] = slots_.try_emplace(name);
  Slot& slot = found->second;
  slot.takers.push_back(std::move(promise));
  if (fresh) slot.id = next_id_++;
  // A table that is being opened, drained or closed is waited for.
  if (fresh || slot.state == State::kOpen) Leave(name, slot, after);
}

env::Future<env::Unit> TableCache::Evict(const std::string& name, env::Duration deadline) {
  env::Promise<env::Unit> promise;
  auto future = promise.future();
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = slots_.find(name);
    if (found == slots_.end()) return env::Future<env::Unit>::Ready(env::Unit{});
    Slot& slot = found->second;
    slot.evicters.push_back(std::move(promise));
    if (slot.state == State::kOpen && slot.leases == 0) StartDraining(name, slot, deadline, after);
  }
  RunAll(after);
  if (future.IsReady()) return future;
  return future.WithDeadline(*env_.storage, deadline * 2, "evicting store '" + name + "'");
}

void TableCache::Rebalance() {
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    Balance(after);
  }
  RunAll(after);
}

void TableCache::EvictClean(uint64_t count) {
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> names;
    for (auto place = unleased_.rbegin(); place != unleased_.rend(); ++place) {
      if (names.size() >= count) break;
      const Slot& slot = slots_.at(*place);
      if (slot.state == State::kOpen && !slot.table->NeedsDrain()) names.push_back(*place);
    }
    for (const std::string& name : names)
      StartDraining(name, slots_.at(name), options_.drain_deadline, after);
  }
  RunAll(after);
}

std::vector<TableCache::CachedPtr> TableCache::Open() const {
  const std::scoped_lock lock(mutex_);
  std::vector<CachedPtr> tables;
  tables.reserve(slots_.size());
  for (const auto& [name, slot] : slots_) {
    if (slot.state == State::kOpen || slot.state == State::kDraining) tables.push_back(slot.table);
  }
  return tables;
}

bool TableCache::Contains(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  return slots_.contains(name);
}

TableCache::CachedPtr TableCache::Peek(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = slots_.find(name);
  return found == slots_.end() ? nullptr : found->second.table;
}

TableCacheCounts TableCache::counts() const {
  const std::scoped_lock lock(mutex_);
  TableCacheCounts counts;
  for (const auto& [name, slot] : slots_) {
    counts.resident += slot.table != nullptr ? 1 : 0;
    counts.leased += slot.leases > 0 ? 1 : 0;
    counts.opening += slot.state == State::kOpening ? 1 : 0;
  }
  counts.draining = draining_;
  counts.waiting = line_.size();
  counts.evictions = evictions_;
  counts.evictions_undrained = evictions_undrained_;
  return counts;
}

std::vector<TableCache::CachedPtr> TableCache::Shut() {
  std::vector<CachedPtr> tables;
  Actions after;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    auto line = std::make_shared<std::list<InLine>>(std::move(line_));
    line_.clear();
    after.push_back([this, line] {
      for (InLine& waiting : *line) {
        env_.storage->CancelTimer(waiting.timer);
        waiting.finder.promise.Set(Closed());
      }
    });
    for (auto slot = slots_.begin(); slot != slots_.end();) {
      if (slot->second.table != nullptr) tables.push_back(slot->second.table);
      auto ended = std::make_shared<Slot>(std::move(slot->second));
      if (ended->state == State::kOpening) {
        // Its opener finds the cache closed.
        slot->second = std::move(*ended);
        ++slot;
        continue;
      }
      after.push_back([ended] {
        for (Finder& finder : ended->finders) finder.promise.Set(Closed());
        for (auto& taker : ended->takers) taker.Set(Closed());
        for (auto& evicter : ended->evicters) evicter.Set(Closed());
      });
      slot = slots_.erase(slot);
    }
    unleased_.clear();
  }
  RunAll(after);
  return tables;
}

TableCache::Slot* TableCache::SlotWith(const std::string& name, uint64_t id) {
  const auto found = slots_.find(name);
  return found == slots_.end() || found->second.id != id ? nullptr : &found->second;
}

}  // namespace sarissa::engine
