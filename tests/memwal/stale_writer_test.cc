// A shard with writers of ours and writers that behave as the original does, all of which may be
// stalled at every step for as long as it takes, and a clean-up that runs at any moment: no row
// that any of them acknowledged is lost (M48, R13, R14).
//
// The model writers use the real log, manifests and clean-up. A foreign writer never reads the
// epoch again after a put that landed. What a writer keeps is {key -> row}; its generations are
// folders with one object that holds the keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "env/sim/sim_random.h"
#include "memwal/claimed_epochs.h"
#include "memwal/clean_up.h"
#include "memwal/names.h"
#include "memwal/shard_log.h"
#include "object_store/memory_store.h"
#include "tests/memwal/hand_clock.h"
#include "tests/memwal/rows.h"

namespace sarissa::memwal {
namespace {

const ShardId kShard = ShardId::FromName("default");

using testing::BytesOf;
using testing::HandClock;

// What all writers of one shard share.
struct World {
  object_store::MemoryStore store;
  ShardManifestStore manifests{store, "t", kShard};
  ShardLog log{store, "t", kShard};
  std::set<std::string> acknowledged;
  uint64_t next_key = 1;
  uint64_t next_folder = 1;

  std::string NewKey() { return fmt::format("k{}", next_key++); }

  static void AddKeys(const DecodedLogEntry& entry, std::set<std::string>& keys) {
    for (const auto& batch : entry.batches) {
      const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(0));
      for (int64_t row = 0; row < batch->num_rows(); ++row) keys.insert(ids.GetString(row));
    }
  }

  // Everything that an open after this moment would show.
  std::set<std::string> Visible() {
    std::set<std::string> keys;
    const auto manifest = manifests.ReadNewest().ValueOrDie();
    if (!manifest) return keys;
    for (const auto& generation : manifest->sstables()) {
      const std::string name = ShardPrefix("t", kShard) + generation.path() + "/keys";
      std::string text = store.Get(name).ValueOrDie()->ToString();
      for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
        keys.insert(text.substr(at, text.find('\n', at) - at));
    }
    uint64_t position = manifest->replay_after_wal_entry_position() + 1;
    while (const auto entry = log.Read(LogPosition(position)).ValueOrDie()) {
      AddKeys(*entry, keys);
      ++position;
    }
    return keys;
  }
};

class ModelWriter {
 public:
  ModelWriter(World& world, bool ours) : world_(world), ours_(ours) {}

  bool dead() const { return step_ == Step::kDead; }

  // One step; between any two of them everything else may happen.
  void Advance(env::Random& random) {
    switch (step_) {
      case Step::kClaim:
        return Claim();
      case Step::kFindTip:
        return FindTip();
      case Step::kSentinel:
        return PutSentinel();
      case Step::kReplay:
        return ReplayOne();
      case Step::kOpen:
        return random.Below(3) == 0 ? StartFlush() : Append();
      case Step::kRereadEpoch:
        return RereadEpoch();
      case Step::kCommit:
        return Commit();
      case Step::kDead:
        return;
    }
  }

 private:
  enum class Step { kClaim, kFindTip, kSentinel, kReplay, kOpen, kRereadEpoch, kCommit, kDead };

  // The original drops what it does not know.
  void PutManifest(ShardManifest manifest) {
    if (ours_) {
      SARISSA_CHECK(world_.manifests.Put(manifest).ok(), "nobody races");
      return;
    }
    manifest.clear_sarissa_checksum();
    manifest.clear_sarissa_nonce();
    manifest.clear_sarissa_claimed_epochs();
    const ShardManifestVersion version(manifest.version());
    SARISSA_CHECK(world_.store
                      .Put(ShardManifestName("t", kShard, version),
                           BytesOf(manifest.SerializeAsString()), object_store::PutMode::kIfAbsent)
                      .ok(),
                  "nobody races");
  }

  void Claim() {
    if (ours_) {
      claim_ = world_.manifests.Claim(1).ValueOrDie();
    } else {
      const auto newest = world_.manifests.ReadNewest().ValueOrDie();
      if (newest) claim_ = *newest;
      if (!newest) claim_.set_current_generation(1);
      claim_.set_version(claim_.version() + 1);
      claim_.set_writer_epoch(claim_.writer_epoch() + 1);
      PutManifest(claim_);
    }
    step_ = Step::kFindTip;
  }

  bool Present(uint64_t position) {
    return world_.store.Head(LogEntryName("t", kShard, LogPosition(position))).ok();
  }

  void FindTip() {
    tip_ = claim_.wal_entry_position_last_seen();
    if (tip_ > 0 && Present(tip_)) {
      while (Present(tip_)) ++tip_;
    } else {
      const auto all = world_.log.List().ValueOrDie();
      tip_ = all.empty() ? 1 : all.back().value() + 1;
    }
    step_ = claim_.writer_epoch() == 1 ? Step::kReplay : Step::kSentinel;
    cursor_ = claim_.replay_after_wal_entry_position() + 1;
  }

  void PutSentinel() {
    const std::string sentinel = EncodeSentinel(Epoch(claim_.writer_epoch())).ValueOrDie();
    const Status put = world_.store.Put(LogEntryName("t", kShard, LogPosition(tip_)),
                                        BytesOf(sentinel), object_store::PutMode::kIfAbsent);
    step_ = put.ok() ? Step::kReplay : Step::kFindTip;
  }

  void ReplayOne() {
    const auto entry = world_.log.Read(LogPosition(cursor_)).ValueOrDie();
    if (!entry) {
      step_ = Step::kOpen;
    } else if (entry->epoch.value() > claim_.writer_epoch()) {
      step_ = Step::kDead;
    } else {
      World::AddKeys(*entry, memtable_);
      covered_ = cursor_++;
    }
  }

  void Append() {
    const std::string key = world_.NewKey();
    const auto attempt = world_.log.Append(
        LogPosition(cursor_), {Epoch(claim_.writer_epoch()), Generation(1), world_.next_key},
        {testing::StorageBatch({{key, 1}})});
    // A collision makes it read the epoch: fenced, or its own retry that it cannot tell.
    if (attempt.outcome != ShardLog::Outcome::kLanded) {
      step_ = Step::kDead;
      return;
    }
    memtable_.insert(key);
    covered_ = cursor_++;
    pending_ = key;
    if (ours_) {
      step_ = Step::kRereadEpoch;
    } else {
      world_.acknowledged.insert(key);
    }
  }

  bool StillOwner() {
    return world_.manifests.ReadNewest().ValueOrDie()->writer_epoch() == claim_.writer_epoch();
  }

  void RereadEpoch() {
    step_ = StillOwner() ? Step::kOpen : Step::kDead;
    if (step_ == Step::kOpen) world_.acknowledged.insert(pending_);
  }

  void StartFlush() {
    if (memtable_.empty()) return;
    if (!StillOwner()) {
      step_ = Step::kDead;
      return;
    }
    const auto number = world_.manifests.ReadNewest().ValueOrDie()->current_generation();
    folder_ = GenerationFolder(world_.next_folder++, Generation(number));
    std::string text;
    for (const auto& key : memtable_) text += key + "\n";
    SARISSA_CHECK(world_.store
                      .Put(ShardPrefix("t", kShard) + folder_ + "/keys", BytesOf(text),
                           object_store::PutMode::kIfAbsent)
                      .ok(),
                  "a new name");
    flushed_covered_ = covered_;
    step_ = Step::kCommit;
  }

  void Commit() {
    ShardManifest successor = *world_.manifests.ReadNewest().ValueOrDie();
    if (successor.writer_epoch() != claim_.writer_epoch()) {
      step_ = Step::kDead;
      return;
    }
    auto* generation = successor.add_sstables();
    generation->set_generation(successor.current_generation());
    generation->set_path(folder_);
    successor.set_current_generation(successor.current_generation() + 1);
    successor.set_version(successor.version() + 1);
    successor.set_replay_after_wal_entry_position(flushed_covered_);
    successor.set_wal_entry_position_last_seen(
        std::max(successor.wal_entry_position_last_seen(), flushed_covered_));
    PutManifest(successor);
    memtable_.clear();
    step_ = Step::kOpen;
  }

  World& world_;
  const bool ours_;
  Step step_ = Step::kClaim;
  ShardManifest claim_;
  uint64_t tip_ = 0;
  uint64_t cursor_ = 0;  // next slot
  uint64_t covered_ = 0;
  uint64_t flushed_covered_ = 0;
  std::set<std::string> memtable_;
  std::string pending_;
  std::string folder_;
};

struct Outcome {
  size_t acknowledged = 0;
  std::vector<std::string> lost;
  uint64_t removed = 0;
};

Outcome Simulate(uint64_t seed, bool force, int steps) {
  env::SimRandom random(seed);
  World world;
  HandClock clock;
  CleanUpState state;
  CleanUpOptions options;
  options.store = &world.store;
  options.clock = &clock;
  options.table = "t";
  options.shard = kShard;
  options.adopt_by_force = force;
  options.retention = std::chrono::seconds(1);
  Outcome outcome;
  const uint64_t foreign_in_ten = random.Below(10);
  std::vector<std::unique_ptr<ModelWriter>> writers;
  for (int step = 0; step < steps; ++step) {
    const uint64_t dice = random.Below(100);
    if (writers.empty() || dice < 5) {
      const bool ours = random.Below(10) >= foreign_in_ten;
      writers.push_back(std::make_unique<ModelWriter>(world, ours));
    } else if (dice < 12) {
      options.max_removals = random.Below(4);
      clock.Advance(std::chrono::seconds(random.Below(3)));
      CleanUpReport report;
      const Status cleaned = CleanUpShard(options, state, report);
      EXPECT_TRUE(cleaned.ok()) << cleaned << " seed " << seed;
      outcome.removed += report.removed();
    } else {
      // The newest ones run, older ones mostly stall.
      const size_t back = random.Below(5) == 0 ? random.Below(writers.size())
                                               : random.Below(std::min<size_t>(2, writers.size()));
      ModelWriter& writer = *writers[writers.size() - 1 - back];
      const uint64_t burst = random.Below(8) + 1;
      for (uint64_t i = 0; i < burst; ++i) writer.Advance(random);
    }
  }
  outcome.acknowledged = world.acknowledged.size();
  const std::set<std::string> visible = world.Visible();
  std::set_difference(world.acknowledged.begin(), world.acknowledged.end(), visible.begin(),
                      visible.end(), std::back_inserter(outcome.lost));
  return outcome;
}

TEST(StaleWriters, NoAcknowledgedRowIsLostWhateverStallsAndIsCleanedUp) {
  uint64_t removed = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Outcome outcome = Simulate(seed, false, 300);
    removed += outcome.removed;
    ASSERT_TRUE(outcome.lost.empty())
        << "seed " << seed << ": " << outcome.lost.size() << " of " << outcome.acknowledged
        << " acknowledged rows are lost, first " << outcome.lost.front();
  }
  EXPECT_GT(removed, 500u) << "the clean-up had something to do";
}

// What the held entries are for: without them the same schedules lose rows.
TEST(StaleWriters, AdoptionByForceIsForShardsWithoutOtherWriters) {
  size_t lost = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) lost += Simulate(seed, true, 300).lost.size();
  EXPECT_GT(lost, 0u);
}

}  // namespace
}  // namespace sarissa::memwal
