// Who moves next: interleavings of several writers over one store, one store call at a time.
//
// Every call of a writer to the store waits at the turnstile. When all that can run has run, so
// that every writer waits or is done, the chooser lets one call through. A schedule is the list of
// the choices; the same list gives the same run. Everything happens in one thread, in the fibers of
// a SimScheduler.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "env/random.h"
#include "env/sim/sim_scheduler.h"
#include "object_store/store_operation.h"

namespace sarissa::duel {

struct StoreCall {
  object_store::StoreOperation operation = object_store::StoreOperation::kHead;
  std::string name;
  bool writes() const {
    return operation == object_store::StoreOperation::kFinish ||
           operation == object_store::StoreOperation::kDelete;
  }
};

// What becomes of a call that is let through.
enum class Verdict {
  kGo,
  kLandedAnswerLost,     // done, but the caller learns nothing
  kNotLandedAnswerLost,  // not done, and the caller learns nothing
  kKillBefore,           // the process dies before the call
  kKillAfter,            // the call is done and the process dies
};

struct Option {
  int writer = 0;
  uint64_t ticket = 0;
  const StoreCall* call = nullptr;
  Verdict verdict = Verdict::kGo;
};

// Faults that a schedule may still contain.
struct FaultAllowance {
  int lost_answers = 0;
  int kills = 0;
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  // Index of the option that is taken; nothing when this schedule is the same as another one.
  virtual std::optional<size_t> Choose(std::span<const Option> options) = 0;
};

// Goes through all schedules, one per run. Of schedules that differ only in the order of calls that
// do not touch each other (two reads, or different objects), one is taken.
class EverySchedule final : public Chooser {
 public:
  std::optional<size_t> Choose(std::span<const Option> options) override;
  // Prepares the next run; false when there is none.
  bool Next();

 private:
  struct Branch {
    std::vector<size_t> options;  // that are not redundant
    size_t taken = 0;
  };
  std::vector<Branch> path_;
  size_t at_ = 0;
  int last_writer_ = -1;
  StoreCall last_call_;
};

// Draws: some seeds change the writer at every step, others stay with one for a while.
class RandomSchedule final : public Chooser {
 public:
  explicit RandomSchedule(env::Random& random) : random_(random), stay_(random.Below(4)) {}
  std::optional<size_t> Choose(std::span<const Option> options) override;

 private:
  env::Random& random_;
  const uint64_t stay_;
  int last_writer_ = -1;
};

// Takes the choices that an earlier run recorded, then always the first.
class RecordedSchedule final : public Chooser {
 public:
  explicit RecordedSchedule(std::vector<size_t> choices) : choices_(std::move(choices)) {}
  std::optional<size_t> Choose(std::span<const Option> options) override;

 private:
  std::vector<size_t> choices_;
  size_t at_ = 0;
};

class Turnstile {
 public:
  Turnstile(env::SimScheduler& scheduler, Chooser& chooser, FaultAllowance allowance)
      : scheduler_(scheduler), chooser_(chooser), allowance_(allowance) {}

  // While it is open every call passes at once.
  void Close() { open_ = false; }
  void Open() { open_ = true; }

  // Called in a fiber of `writer`: returns when the call may go on.
  Verdict Pass(int writer, const StoreCall& call);

  // The chooser gave up: this schedule is the same as another one.
  bool redundant() const { return redundant_; }
  const std::vector<size_t>& choices() const { return choices_; }
  // What went through, a line each.
  std::string Trace() const;

 private:
  struct Waiting {
    uint64_t ticket;
    StoreCall call;
  };
  struct Passed {
    int writer;
    StoreCall call;
    Verdict verdict;
  };
  class Place;

  void Decide();

  env::SimScheduler& scheduler_;
  Chooser& chooser_;
  FaultAllowance allowance_;
  bool open_ = true;
  bool redundant_ = false;
  std::map<std::pair<int, uint64_t>, StoreCall> waiting_;  // by writer and ticket
  uint64_t last_ticket_ = 0;
  env::MonotonicTime decided_{};
  uint64_t chosen_ = 0;
  Verdict verdict_ = Verdict::kGo;
  std::vector<size_t> choices_;
  std::vector<Passed> passed_;
};

}  // namespace sarissa::duel
