// A simulated world of four stores, three writers, readers, a fencer, merges, clean-ups, faults and
// crashes, from one seed. Its clients' expectations are checked at every read and after every
// crash.
//
// SARISSA_TRACE=1 prints what happens to stderr.
//
// Virtual time: kLives processes, one after the other, of up to kLifeLimit each; all of them die by
// one of the three kinds of crash.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "env/sim/sim_random.h"
#include "memwal/clean_up.h"
#include "tests/simulation/store_process.h"
#include "tests/simulation/weather.h"

namespace sarissa::simulation {

class StoreWorld {
 public:
  static constexpr int kStores = 4;
  static constexpr int kWriters = 3;
  static constexpr int kLives = 5;
  static constexpr env::Duration kLifeLimit = std::chrono::seconds(32);

  explicit StoreWorld(uint64_t seed);

  // What went wrong, or empty.
  std::string Run();
  // Equal for equal seeds.
  uint64_t trace_hash() const { return scheduler_.trace_hash(); }
  const env::SimDisk& disk() const { return disk_; }
  // What happened, so that a world in which nothing does cannot pass for a good one.
  struct Counts {
    uint64_t acknowledged = 0;
    uint64_t live_reads = 0;  // that gave rows
    uint64_t flushes = 0;
    uint64_t merges = 0;
    uint64_t clean_ups = 0;
    uint64_t fencers = 0;
    uint64_t errors = 0;  // answers that said that something failed
    double virtual_seconds = 0;
    void Add(const Counts& other);
  };
  Counts counts() const;

 private:
  struct Store {
    std::string name;
    Expectations expectations;
    // Since the running process opened it: a fencer claimed it, or an answer said that its writer
    // is broken.
    bool fenced = false;
    bool broken = false;
  };

  Status Live(bool last);
  Status OpenAll();
  Status CheckStart(Store& store);
  Status Happen(bool last);
  Status Quiesce(bool last);
  Status FlushAll(bool must_work);
  void Crash();

  void StartWriters();
  void WriterStep(int writer);
  void Answered(int writer, Store& store, size_t append,
                const Result<engine::AppendReceipt>& receipt);
  void StartRead(Store& store);
  void StartFlush(Store& store);
  Status StartFencer();
  Status FencerStep();
  Status Maintain(Store& store, bool merge);

  // True for what faults may answer; anything else is a finding.
  bool Expected(const Status& status);
  double Now() const;
  void Problem(std::string what);
  void Trace(std::string_view what) const;
  memwal::testing::KeyedRows NextRows(std::string_view client);
  StoreProcess::Options ProcessOptions();

  env::SimScheduler scheduler_;
  env::SimRandom random_;
  env::SimDisk disk_;
  Weather weather_;
  std::array<Store, kStores> stores_;
  std::unique_ptr<StoreProcess> process_;
  std::unique_ptr<StoreProcess> fencer_;
  std::map<std::string, memwal::CleanUpState> clean_up_;  // of the running process
  int64_t last_value_ = 0;
  bool writing_ = false;
  Counts counts_;
  // Answers that are still to come, of the running process.
  uint64_t pending_ = 0;
  std::string problem_;
};

}  // namespace sarissa::simulation
