// Several shard writers, each in a simulated process of its own, fight for one shard of one store.
// Each follows a script; the turnstile orders their store calls. Afterwards an opener that nobody
// disturbs looks at what is left.
//
// What must hold, whatever the order and whichever answers are lost:
//  - a row that was acknowledged is there exactly once, in the entry that its answer named (C1,
//  C3);
//    no row is there that was never sent (C2). The entry may be gone after a clean-up;
//  - of every log position and manifest version one put landed, and the epochs of the rows do not
//    fall with the position (C7);
//  - a seal that succeeded has its rows in generations (S4, C8);
//  - every append, seal and close that was asked for is answered (R03);
//  - without faults, and also when one answer is lost (R19), the only error is kFenced, and the
//  owner
//    of the newest epoch gets none;
//  - a writer whose epoch was passed is acknowledged nothing any more, the newest owner is.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "env/sim/sim_env.h"
#include "memwal/clean_up.h"
#include "memwal/shard_writer.h"
#include "object_store/memory_store.h"
#include "tests/crash/duel_schedule.h"
#include "tests/crash/duel_store.h"

namespace sarissa::duel {

enum class Act { kOpen, kAppend, kTwoAppends, kSeal, kCleanUp, kClose };

struct Duel {
  std::vector<std::vector<Act>> scripts;  // each begins with kOpen
  // The first writer is open, with one row, before the others come.
  bool first_is_incumbent = true;
  int64_t memtable_rows = 100;
  FaultAllowance faults = {};
};

class DuelWorld {
 public:
  DuelWorld(const Duel& duel, Chooser& chooser, uint64_t seed);
  ~DuelWorld();

  // Empty, or what is wrong. Once.
  std::string Run();
  const Turnstile& turnstile() const { return turnstile_; }

 private:
  struct SentAppend {
    std::string key;
    env::Future<memwal::AppendResult> answer;
  };
  struct Fighter {
    int number = 0;
    std::unique_ptr<env::SimEnv> process;
    std::unique_ptr<DuelStore> store;
    std::shared_ptr<memwal::ShardWriter> writer;
    Status opened;
    std::vector<Act> script;
    size_t next_act = 0;
    bool ended = false;
    bool killed = false;
    std::vector<SentAppend> appends;
    std::vector<env::Future<memwal::FlushOutcome>> seals;
    std::set<std::string> sealed;  // rows that a successful seal covers
    std::vector<env::Future<memwal::CloseReport>> closes;
    std::vector<Status> clean_ups;
    memwal::CleanUpState clean_up_state;
  };
  // What is left, as a fresh opener finds it.
  struct Remains {
    std::multiset<std::string> in_generations;
    std::multiset<std::string> in_memtables;
    bool Has(const std::string& key) const {
      return in_generations.contains(key) || in_memtables.contains(key);
    }
  };

  Fighter& AddFighter(std::vector<Act> script);
  void Continue(Fighter& fighter);
  void AppendRows(Fighter& fighter, int count);
  void Seal(Fighter& fighter);
  void CleanUp(Fighter& fighter);
  memwal::ShardOptions Options(const Fighter& fighter) const;
  env::Future<memwal::AppendResult> Send(Fighter& fighter);
  // Faults that an error may come from.
  bool MayFail() const;

  std::string CheckAnswers() const;
  std::string CheckErrors(const Fighter& fighter, bool owner) const;
  std::string CheckAuthors() const;
  std::string CheckLog();
  Result<LogPosition> Cursor();
  std::string CheckRows(const Remains& remains) const;
  std::string CheckAfterlife(Fighter& heir);
  Result<Remains> Look(Fighter& heir);

  const Duel duel_;
  const ShardId shard_ = ShardId::FromName("duel");
  env::SimScheduler scheduler_;
  env::SimDisk disk_;
  env::SimRandom seeds_;
  object_store::MemoryStore store_;
  Turnstile turnstile_;
  Authors authors_;
  std::vector<std::unique_ptr<Fighter>> fighters_;
};

}  // namespace sarissa::duel
