// Fencing duels: the real shard writer against itself, every order of the store calls of short
// scripts and seeded orders of long ones, with lost answers and killed processes.
//
// A failure prints its schedule. To run it again: SARISSA_SEED=<seed> for a drawn duel, and
// SARISSA_SCHEDULE=<choices> together with --gtest_filter for the others.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <sstream>

#include "tests/counts.h"
#include "tests/crash/duel_world.h"

namespace sarissa::duel {
namespace {

constexpr uint64_t kSeed = 7;

std::string Report(const DuelWorld& world, const std::string& problem) {
  return fmt::format("{}\nSARISSA_SCHEDULE={}{}", problem,
                     fmt::join(world.turnstile().choices(), "."), world.turnstile().Trace());
}

void RunRecorded(const Duel& duel, const char* text) {
  std::vector<size_t> choices;
  std::istringstream stream(text);
  for (std::string choice; std::getline(stream, choice, '.');)
    choices.push_back(std::strtoull(choice.c_str(), nullptr, 10));
  RecordedSchedule chooser(choices);
  DuelWorld world(duel, chooser, kSeed);
  const std::string problem = world.Run();
  EXPECT_EQ(problem, "") << Report(world, problem);
}

void RunEvery(const Duel& duel) {
  if (const char* recorded = std::getenv("SARISSA_SCHEDULE")) return RunRecorded(duel, recorded);
  EverySchedule chooser;
  uint64_t schedules = 0;
  do {
    DuelWorld world(duel, chooser, kSeed);
    const std::string problem = world.Run();
    ASSERT_EQ(problem, "") << Report(world, problem);
    if (!world.turnstile().redundant()) ++schedules;
  } while (schedules < tests::kDuelOrders && chooser.Next());
  ::testing::Test::RecordProperty("schedules", std::to_string(schedules));
}

constexpr Act kOpen = Act::kOpen;
constexpr Act kAppend = Act::kAppend;
constexpr Act kTwoAppends = Act::kTwoAppends;
constexpr Act kSeal = Act::kSeal;
constexpr Act kCleanUp = Act::kCleanUp;
constexpr Act kClose = Act::kClose;

TEST(FencingDuel, AnIncumbentAppendsWhileAnotherOpensAndAppends) {
  RunEvery({.scripts = {{kOpen, kAppend, kAppend}, {kOpen, kAppend}}});
}

TEST(FencingDuel, AnIncumbentFlushesWhileAnotherOpensAndAppends) {
  RunEvery({.scripts = {{kOpen, kSeal}, {kOpen, kAppend}}});
}

TEST(FencingDuel, TwoOpenANewShard) {
  RunEvery({.scripts = {{kOpen, kAppend}, {kOpen, kAppend}}, .first_is_incumbent = false});
}

TEST(FencingDuel, AnAnswerIsLostSomewhere) {
  RunEvery({.scripts = {{kOpen, kAppend}, {kOpen, kAppend}}, .faults = {.lost_answers = 1}});
}

TEST(FencingDuel, SomebodyIsKilledSomewhere) {
  RunEvery({.scripts = {{kOpen, kAppend}, {kOpen, kAppend}}, .faults = {.kills = 1}});
}

// The predecessor writes where the log is cleaned; the opener in the middle sleeps meanwhile (R13,
// R14).
TEST(FencingDuel, AnIncumbentAppendsWhileAnotherOpensFlushesAndCleansUp) {
  RunEvery({.scripts = {{kOpen, kAppend}, {kOpen, kAppend, kSeal, kCleanUp}}});
}

TEST(FencingDuel, TwoOpenWhileOneOfThemFlushesAndCleansUp) {
  RunEvery({.scripts = {{kOpen}, {kOpen, kSeal, kCleanUp}, {kOpen, kAppend}}});
}

Duel DrawDuel(env::Random& random) {
  Duel duel;
  duel.first_is_incumbent = random.Below(4) != 0;
  duel.memtable_rows = random.Below(2) == 0 ? 100 : 2;
  const uint64_t writers = 2 + random.Below(3);
  for (uint64_t i = 0; i < writers; ++i) {
    std::vector<Act> script = {kOpen};
    const uint64_t acts = 1 + random.Below(5);
    for (uint64_t act = 0; act < acts; ++act) {
      constexpr Act kActs[] = {kAppend, kAppend, kAppend, kTwoAppends, kSeal, kSeal, kCleanUp};
      script.push_back(kActs[random.Below(std::size(kActs))]);
    }
    if (random.Below(4) == 0) script.push_back(kClose);
    duel.scripts.push_back(std::move(script));
  }
  if (random.Below(2) == 0) duel.faults.lost_answers = 1 + static_cast<int>(random.Below(3));
  if (random.Below(2) == 0) duel.faults.kills = 1 + static_cast<int>(random.Below(2));
  return duel;
}

TEST(FencingDuel, DrawnDuelsOfTwoToFourWriters) {
  const uint64_t first = tests::SeedFor("FencingDuel");
  for (uint64_t i = 0; i < tests::kDuelSchedules; ++i) {
    env::SimRandom random(first + i);
    const Duel duel = DrawDuel(random);
    RandomSchedule chooser(random);
    DuelWorld world(duel, chooser, random.Next());
    const std::string problem = world.Run();
    ASSERT_EQ(problem, "") << "replay with SARISSA_SEED=" << first + i << "\n"
                           << Report(world, problem);
  }
}

}  // namespace
}  // namespace sarissa::duel
