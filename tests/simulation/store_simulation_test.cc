// Append, flush, crash, reopen: whole stores in a deterministic world, checked from outside.
//
// Each seed draws an interleaving, the moments of the crashes, and what the disk lost in them. The
// checker knows only what clients were told: an acknowledged row is there after every crash (C1),
// nothing is there that was never sent (C2), a key is there once (C3), and the newest write of a
// key wins (C4). Clients wait for each answer, so of an unanswered write either outcome is right,
// but one that was seen stays. Every seed runs twice and must leave the same trace and the same
// disk.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/catalog.h"
#include "env/sim/sim_env.h"
#include "object_store/local_store.h"
#include "tests/counts.h"
#include "tests/memwal/rows.h"

namespace sarissa::engine {
namespace {

using memwal::testing::KeyedBase;
using memwal::testing::KeyedRows;
using memwal::testing::UserBatch;

constexpr int kClients = 3;
constexpr int kKeysPerClient = 4;
constexpr int kLives = 4;  // processes per seed, one after the other

// What the clients know.
class Expectations {
 public:
  void Sent(const std::string& key, int64_t value) { sent_[key].insert(value); }
  void Acknowledged(const std::string& key, int64_t value) {
    least_[key] = std::max(least_[key], value);
  }

  // Empty when `found` is a legal state; else what is wrong.
  std::string Check(const std::map<std::string, int64_t>& found) const {
    for (const auto& [key, least] : least_) {
      const auto row = found.find(key);
      if (row == found.end())
        return fmt::format("{} = {} was acknowledged and is gone", key, least);
      if (row->second < least)
        return fmt::format("{} = {} was acknowledged, {} is shown", key, least, row->second);
    }
    for (const auto& [key, value] : found) {
      const auto sent = sent_.find(key);
      if (sent == sent_.end() || !sent->second.contains(value))
        return fmt::format("{} = {} was never sent", key, value);
    }
    return "";
  }
  void Seen(const std::map<std::string, int64_t>& found) {
    for (const auto& [key, value] : found) Acknowledged(key, value);
  }

 private:
  std::map<std::string, std::set<int64_t>> sent_;
  std::map<std::string, int64_t> least_;
};

class World {
 public:
  explicit World(uint64_t seed) : scheduler_(seed), random_(seed ^ 0x5a5a5a5a) {
    disk_.RecordOperations(false);
  }

  // What went wrong, or empty.
  std::string Run() {
    for (int life = 0; life < kLives; ++life) {
      const std::string problem = Live(life);
      if (!problem.empty()) return fmt::format("life {}: {}", life, problem);
      constexpr env::SimDisk::CrashMode kModes[] = {env::SimDisk::CrashMode::kDropAllUnsynced,
                                                    env::SimDisk::CrashMode::kKeepAll,
                                                    env::SimDisk::CrashMode::kRandom};
      disk_.Crash(random_, kModes[random_.Below(3)]);
    }
    return "";
  }
  uint64_t hash() const { return scheduler_.trace_hash() ^ disk_.StateHash(); }

 private:
  // One process: open, check, let the clients write until the plug is pulled.
  std::string Live(int life) {
    env::SimEnv::Options options;
    options.seed = random_.Next();
    options.max_latency = std::chrono::milliseconds(3);
    env::SimEnv process(scheduler_, disk_, options);
    const env::Env& env = process.env();
    auto store = object_store::LocalStore::Open(*env.file_system, *env.random, "/data");
    if (!store.ok()) return store.status().ToString();

    Result<std::shared_ptr<Table>> table = MakeError(ErrorKind::kDeadline, "the open never ended");
    Result<std::map<std::string, int64_t>> found =
        MakeError(ErrorKind::kDeadline, "the first read never ended");
    std::shared_ptr<Catalog> catalog;
    bool opened = false;
    env.storage->Post([&] {
      table = OpenTable(**store, env, catalog);
      if (table.ok()) found = ReadAll(**table);
      opened = true;
    });
    scheduler_.RunUntil([&] { return opened; });
    if (!table.ok()) return "open: " + table.status().ToString();
    if (!found.ok()) return "read: " + found.status().ToString();
    const std::string problem = expectations_.Check(*found);
    if (!problem.empty()) return problem;
    expectations_.Seen(*found);

    for (int client = 0; client < kClients; ++client) ClientStep(env, **table, client);
    // The last life ends without a crash on the way, so that flushes and reads at rest are checked
    // too.
    if (life + 1 == kLives) {
      stop_clients_ = true;
    }
    scheduler_.RunFor(std::chrono::milliseconds(random_.Below(400)));
    std::string live_problem = CheckLive(env, **table);
    process.Kill();
    *table = nullptr;
    catalog.reset();
    return live_problem;
  }

  // Rows that were acknowledged are visible to a read that starts afterwards, in the same process.
  std::string CheckLive(const env::Env& env, Table& table) {
    const Expectations before = expectations_;
    Result<std::map<std::string, int64_t>> found =
        MakeError(ErrorKind::kDeadline, "the read never ended");
    bool done = false;
    env.storage->Post([&] {
      found = ReadAll(table);
      done = true;
    });
    scheduler_.RunUntil([&] { return done; });
    if (!found.ok()) return "live read: " + found.status().ToString();
    // The clients went on meanwhile, so what was sent since then is legal too.
    for (const auto& [key, value] : *found) {
      if (!expectations_.Check({{key, value}}).ends_with("never sent")) continue;
      return fmt::format("live: {} = {} was never sent", key, value);
    }
    const std::string problem = before.Check(*found);
    return problem.ends_with("never sent") || problem.empty() ? "" : "live: " + problem;
  }

  Result<std::shared_ptr<Table>> OpenTable(object_store::ObjectStore& store, const env::Env& env,
                                           std::shared_ptr<Catalog>& catalog) {
    CatalogOptions options;
    options.schema = KeyedBase();
    options.memtable_rows = 12;  // many freezes
    options.flush_interval = std::chrono::milliseconds(150);
    ARROW_ASSIGN_OR_RAISE(catalog, Catalog::Open(store, env, options));
    auto table = catalog->Find("exp");
    if (table.ok() || !Is(table.status(), ErrorKind::kNotFound)) return table;
    return catalog->Create("exp");
  }

  static Result<std::map<std::string, int64_t>> ReadAll(Table& table) {
    ARROW_ASSIGN_OR_RAISE(auto stream, table.Scan({}));
    std::map<std::string, int64_t> rows;
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
      if (batch == nullptr) return rows;
      const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(0));
      const auto& values = static_cast<const arrow::Int64Array&>(*batch->column(1));
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        if (!rows.emplace(ids.GetString(row), values.Value(row)).second) {
          return Error(ErrorKind::kInternal, "{} is shown twice", ids.GetString(row));
        }
      }
    }
  }

  // A client's next write; its answer starts the one after.
  void ClientStep(const env::Env& env, Table& table, int client) {
    if (stop_clients_) return;
    KeyedRows rows(1 + random_.Below(3));
    for (auto& [key, value] : rows) {
      key = fmt::format("c{}-k{}", client, random_.Below(kKeysPerClient));
      value = ++last_value_;
      expectations_.Sent(key, value);
    }
    const bool flush = random_.Below(10) == 0;
    table.Append({UserBatch(rows)}, {})
        .Then(*env.storage,
              [this, &env, &table, client, rows, flush](const Result<AppendReceipt>& receipt) {
                if (!receipt.ok()) return;  // outcome unknown to this client; it gives up
                std::map<std::string, int64_t> newest;
                for (const auto& [key, value] : rows) newest[key] = value;
                for (const auto& [key, value] : newest) expectations_.Acknowledged(key, value);
                if (!flush) return ClientStep(env, table, client);
                table.Flush().Then(*env.storage,
                                   [this, &env, &table, client](const Result<FlushReport>&) {
                                     ClientStep(env, table, client);
                                   });
              });
  }

  env::SimScheduler scheduler_;
  env::SimRandom random_;
  env::SimDisk disk_;
  Expectations expectations_;
  int64_t last_value_ = 0;
  bool stop_clients_ = false;
};

TEST(StoreSimulation, AcknowledgedRowsSurviveEveryCrash) {
  const uint64_t first = tests::SeedFor("StoreSimulation");
  for (uint64_t i = 0; i < tests::kShardSimulationSeeds; ++i) {
    const uint64_t seed = first + i;
    World world(seed);
    const std::string problem = world.Run();
    ASSERT_EQ(problem, "") << "replay with SARISSA_SEED=" << seed;
    World again(seed);
    ASSERT_EQ(again.Run(), "") << "replay with SARISSA_SEED=" << seed;
    ASSERT_EQ(world.hash(), again.hash()) << "two runs of one seed differ: SARISSA_SEED=" << seed;
  }
}

}  // namespace
}  // namespace sarissa::engine
