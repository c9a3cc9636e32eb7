// Sees to it that no row stays only in the log for longer than the flush interval, whoever wrote it
// and whatever the cache did: one timer for the process, no thread.
//
// A pass seals the open tables whose rows are old enough, and opens, flushes and releases the
// tables that are marked in the dirty set and not open: those a former process left, and those an
// eviction could not drain. At most kParallel of these at once; one that hangs gives its place to
// the next after kPlaceLimit and is looked at again with growing back-off, so that it delays no
// other. When nothing is marked and no open table has rows, a pass does nothing in the store.
//
// Thread safe. The lock is a leaf.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/catalog.h"
#include "env/env.h"
#include "env/future.h"

namespace sarissa::engine {

// What the sweeper works on.
class SweptTables {
 public:
  virtual ~SweptTables() = default;
  // Seals what is old enough or too large among the open tables; does not wait.
  virtual void SealOpenTables() = 0;
  // Marked and not open.
  virtual std::vector<std::string> ColdDirty() const = 0;
  // Opens, flushes, releases. OK also when the table is gone.
  virtual env::Future<env::Unit> FlushCold(const std::string& name) = 0;
};

class Sweeper : public std::enable_shared_from_this<Sweeper> {
 public:
  static constexpr size_t kParallel = 8;
  static constexpr env::Duration kPlaceLimit = std::chrono::seconds(5);
  static constexpr env::Duration kTableLimit = std::chrono::seconds(120);
  static constexpr env::Duration kFirstDelay = std::chrono::seconds(1);
  static constexpr env::Duration kLastDelay = std::chrono::seconds(60);

  Sweeper(std::weak_ptr<SweptTables> tables, const env::Env& env, env::Duration period)
      : tables_(std::move(tables)), env_(env), period_(period) {}

  void Start() { Schedule(); }
  // After it nothing new begins; what runs ends by itself.
  void Stop();
  SweeperStatus status() const;

 private:
  struct Attempt {
    bool running = false;
    bool has_place = false;
    uint64_t number = 0;
    env::Duration delay{};
    env::MonotonicTime not_before{};
    std::string cause;  // of the last failure, so that each is told once
  };

  void Schedule();
  void Pass();
  void StartCold();
  void Run(SweptTables& tables, const std::string& name, uint64_t number);
  void GiveUpPlace(const std::string& name, uint64_t number);
  void Finish(const std::string& name, uint64_t number, const Status& status);

  const std::weak_ptr<SweptTables> tables_;
  const env::Env& env_;
  const env::Duration period_;

  mutable std::mutex mutex_;
  bool stopped_ = false;
  env::TimerId timer_ = 0;
  uint64_t next_number_ = 1;
  size_t places_taken_ = 0;
  std::unordered_map<std::string, Attempt> attempts_;
  SweeperStatus status_;
};

}  // namespace sarissa::engine
