// Whole stores in a deterministic world (store_world.h), checked from outside.
//
// A seed draws the interleaving, the faults, the moments of the crashes and what the disk lost in
// them. Every seed runs twice and must leave the same trace and the same disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/counts.h"
#include "tests/simulation/seeds.h"
#include "tests/simulation/store_world.h"

namespace sarissa::simulation {
namespace {

std::string Replay(uint64_t seed) {
  return fmt::format(
      "replay with SARISSA_SEED={} SARISSA_SEEDS=1 store_simulation_test "
      "--gtest_filter='StoreSimulation.AcknowledgedRowsSurviveEverything'",
      seed);
}

// The first thing in which two runs of one seed differ, or empty.
std::string Difference(const StoreWorld& world, const StoreWorld& again) {
  if (world.trace_hash() != again.trace_hash()) return "two runs of one seed have different traces";
  if (world.disk().StateHash() == again.disk().StateHash()) return "";
  const auto files = world.disk().Files();
  const auto others = again.disk().Files();
  for (const auto& [path, bytes] : files) {
    const auto other = others.find(path);
    if (other == others.end()) return "two runs of one seed: only one has " + path;
    const auto differs =
        std::mismatch(bytes.begin(), bytes.end(), other->second.begin(), other->second.end());
    if (differs.first != bytes.end() || differs.second != other->second.end())
      return fmt::format("two runs of one seed: {} differs at byte {}", path,
                         differs.first - bytes.begin());
  }
  return "two runs of one seed leave different disks";
}

// What went wrong in either of two runs, or how they differ.
std::string RunTwice(uint64_t seed, StoreWorld::Counts& counts) {
  StoreWorld world(seed);
  std::string problem = world.Run();
  if (!problem.empty()) return problem;
  counts.Add(world.counts());
  StoreWorld again(seed);
  problem = again.Run();
  if (!problem.empty()) return "second run: " + problem;
  return Difference(world, again);
}

TEST(StoreSimulation, AcknowledgedRowsSurviveEverything) {
  const uint64_t first = tests::SeedFor("StoreSimulation");
  StoreWorld::Counts counts;
  for (uint64_t i = 0; i < tests::StoreSimulationSeeds(); ++i) {
    const std::string problem = RunTwice(first + i, counts);
    ASSERT_EQ(problem, "") << Replay(first + i);
  }
  fmt::print(
      "{} seeds: {} appends acknowledged, {} live reads, {} flushes, {} merges, {} clean-ups, {} "
      "fencers' appends, {} failures answered, {:.0f} virtual seconds\n",
      tests::StoreSimulationSeeds(), counts.acknowledged, counts.live_reads, counts.flushes,
      counts.merges, counts.clean_ups, counts.fencers, counts.errors, counts.virtual_seconds);
}

TEST(StoreSimulation, SeedsThatFailedOncePass) {
  StoreWorld::Counts counts;
  for (const auto& [seed, story] : kPastFailures) {
    const std::string problem = RunTwice(seed, counts);
    EXPECT_EQ(problem, "") << story << "; " << Replay(seed);
  }
}

}  // namespace
}  // namespace sarissa::simulation
