// The open tables, at most `capacity` of them, at most one per name.
//
// A slot goes through
//   kOpening   the opener runs on the storage executor; finders share it
//   kOpen      handed out as leases; unleased ones are in the order of their last use
//   kDraining  chosen for eviction, its rows are being flushed. A finder calls the eviction off.
//   kClosing   nothing is left to flush: the writer is being closed. Finders wait and open anew.
//   kTaken     a caller of Take has the name to itself (a delete). Finders wait.
// A miss with every slot taken waits in line. Drains begin at 7/8 of the capacity, so that a miss
// seldom waits for one.
//
// An eviction never cuts a user off and never forgets rows: what does not drain in time stays open,
// beside the capacity, and is counted; the next attempt comes after a back-off. A table whose
// writer is fenced or failed has nothing that a flush could save: it is closed, and its rows stay
// where they are, in the log.
//
// Thread safe. One lock, before a table's in the lock order; not held across I/O, nor while a
// promise is completed.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/table.h"
#include "env/env.h"
#include "env/future.h"

namespace sarissa::engine {

// What the cache does with a table that it holds.
class CachedTable {
 public:
  virtual ~CachedTable() = default;
  virtual Table& table() = 0;
  // Completes when every row that was acknowledged before is in a generation. Bounded by
  // `deadline`.
  virtual env::Future<env::Unit> Drain(env::Duration deadline) = 0;
  // True while a flush could still save something: rows in a memtable of a writer that works.
  virtual bool NeedsDrain() const = 0;
  // Ends the writer. The report's status is OK when no row is only in the log.
  virtual env::Future<env::Unit> CloseForEviction(env::Duration deadline) = 0;
};

struct TableCacheOptions {
  uint64_t capacity = 2000;
  env::Duration open_timeout = std::chrono::seconds(120);
  env::Duration drain_deadline = std::chrono::seconds(30);
  // After a drain that failed.
  env::Duration retry_delay = std::chrono::seconds(5);
};

struct TableCacheCounts {
  uint64_t resident = 0;
  uint64_t leased = 0;
  uint64_t opening = 0;
  uint64_t draining = 0;
  uint64_t waiting = 0;
  uint64_t evictions = 0;
  uint64_t evictions_undrained = 0;
};

class TableCache : public std::enable_shared_from_this<TableCache> {
 public:
  using CachedPtr = std::shared_ptr<CachedTable>;
  // Called on the storage executor, may block. May be copied.
  using Opener = std::function<env::Future<CachedPtr>()>;
  struct Eviction {
    const std::string& name;
    const CachedPtr& table;
    bool left = true;       // false: it did not drain and stays open
    const Status& drained;  // OK when no row of it is only in the log
  };
  // Called without the lock; when the table left, before anybody can open it again.
  using EvictionHook = std::function<void(const Eviction& eviction)>;

  TableCache(const env::Env& env, TableCacheOptions options, EvictionHook hook)
      : env_(env), options_(options), hook_(std::move(hook)) {}

  // The result is the lease.
  env::Future<std::shared_ptr<Table>> Find(const std::string& name, Opener opener);
  // The name for oneself: completes with the open table, which has left the cache, or with null.
  // Does not wait for leases. `Turn` ends it.
  struct Turn {
    CachedPtr table;
    std::shared_ptr<void> end;
  };
  env::Future<Turn> Take(const std::string& name);
  // The same, if `table` is the one that is open; else completes at once with neither.
  env::Future<Turn> TakeIfOpen(const std::string& name, const CachedTable* table);
  // Evicts whatever the order of use says; waits for leases. kFailedWriter when it does not drain.
  env::Future<env::Unit> Evict(const std::string& name, env::Duration deadline);
  // Unleased tables with nothing to drain leave, the least recently used first, at most `count`.
  void EvictClean(uint64_t count);
  // Drains that a back-off held up start when nothing else happens: to be called now and then.
  void Rebalance();

  // Those that are open, draining ones included.
  std::vector<CachedPtr> Open() const;
  bool Contains(const std::string& name) const;
  // The open table, without a lease; or null.
  CachedPtr Peek(const std::string& name) const;
  TableCacheCounts counts() const;

  // From here on finders get kCancelled. Gives what was open; what is being opened is closed when
  // its opener ends. The caller closes the tables.
  std::vector<CachedPtr> Shut();

 private:
  enum class State { kOpening, kOpen, kDraining, kClosing, kTaken };
  struct Finder {
    Opener opener;
    env::Promise<std::shared_ptr<Table>> promise;
  };
  struct Slot {
    uint64_t id = 0;
    State state = State::kOpening;
    CachedPtr table;
    uint64_t leases = 0;
    std::list<std::string>::iterator place;  // in unleased_, valid while listed
    bool listed = false;
    bool beside = false;              // did not drain: not counted against the capacity
    bool frees = false;               // is being drained, and was counted when that began
    env::MonotonicTime not_before{};  // of the next drain
    std::vector<Finder> finders;      // wait for kOpening, kClosing, kTaken to end
    std::vector<env::Promise<Turn>> takers;
    std::vector<env::Promise<env::Unit>> evicters;  // explicit ones
  };
  // Things to do once the lock is released.
  using Actions = std::vector<std::function<void()>>;
  class Lease;

  // True if the finder waits in line for a place.
  bool FindLocked(const std::string& name, Finder finder, Actions& after);
  void StartOpening(const std::string& name, Finder finder, Actions& after);
  void FinishOpening(const std::string& name, uint64_t id, const Result<CachedPtr>& opened);
  std::shared_ptr<Table> LeaseLocked(const std::string& name, Slot& slot);
  void Release(const std::string& name, uint64_t id);
  void List(const std::string& name, Slot& slot);
  void Unlist(Slot& slot);
  // Starts the drains that the limit asks for, and serves those in line.
  void Balance(Actions& after);
  enum class Among { kAll, kBeside };
  Slot* Victim(Among among, std::string* name);
  void EndDrain(Slot& slot);
  void StartDraining(const std::string& name, Slot& slot, env::Duration deadline, Actions& after);
  void FinishDraining(const std::string& name, uint64_t id, env::Duration deadline,
                      const Status& drained);
  void StartClosing(const std::string& name, Slot& slot, env::Duration deadline, Status drained,
                    Actions& after);
  void FinishClosing(const std::string& name, uint64_t id, const Status& closed);
  // Ends a slot: the next taker gets the name, else finders look again.
  void Leave(const std::string& name, Slot& slot, Actions& after);
  void TakeLocked(const std::string& name, env::Promise<Turn> promise, Actions& after);
  void EndTurn(const std::string& name, uint64_t id);
  Slot* SlotWith(const std::string& name, uint64_t id);
  uint64_t Occupied() const { return slots_.size() - beside_; }
  static Status Closed();
  static void RunAll(Actions& after);

  const env::Env& env_;
  const TableCacheOptions options_;
  const EvictionHook hook_;

  mutable std::mutex mutex_;
  bool closed_ = false;
  uint64_t next_id_ = 1;
  uint64_t beside_ = 0;
  uint64_t draining_ = 0;  // kDraining and kClosing
  uint64_t freeing_ = 0;   // those among them whose end frees a place
  uint64_t evictions_ = 0;
  uint64_t evictions_undrained_ = 0;
  std::unordered_map<std::string, Slot> slots_;
  std::list<std::string> unleased_;  // the most recently used first
  struct InLine {
    std::string name;
    Finder finder;
    uint64_t number = 0;
    env::TimerId timer = 0;
  };
  std::list<InLine> line_;
};

}  // namespace sarissa::engine
