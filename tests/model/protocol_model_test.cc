// The shard protocol, every order of its steps: nothing acknowledged is lost, and each rule is
// needed.
#include <gtest/gtest.h>

#include "tests/counts.h"
#include "tests/model/state_search.h"

namespace sarissa::model {
namespace {

constexpr bool kOurs = false;
constexpr bool kForeign = true;

SearchResult Search(const Rules& rules, const Bounds& bounds, uint64_t limit = UINT64_MAX,
                    const std::string& only = {}) {
  const Protocol protocol(rules, bounds);
  SearchResult result = StateSearch(protocol, only).Run(limit);
  ::testing::Test::RecordProperty("states", std::to_string(result.states));
  return result;
}

void ExpectHolds(const Rules& rules, const Bounds& bounds) {
  const SearchResult result = Search(rules, bounds, tests::kProtocolStates);
  EXPECT_EQ(result.violation, "") << result.Text();
  EXPECT_TRUE(result.exhausted || result.states >= tests::kProtocolStates);
}

// The whole space, not a part of it.
void ExpectHoldsEverywhere(const Rules& rules, const Bounds& bounds) {
  const SearchResult result = Search(rules, bounds);
  EXPECT_EQ(result.violation, "") << result.Text();
  EXPECT_TRUE(result.exhausted) << result.states << " states were not all";
}

void ExpectBroken(const Rules& rules, const Bounds& bounds, const std::string& violation) {
  const SearchResult result = Search(rules, bounds, UINT64_MAX, violation);
  EXPECT_NE(result.violation, "") << "nothing found in " << result.states << " states";
  if (std::getenv("SARISSA_SHOW_PATHS") != nullptr) std::printf("%s\n", result.Text().c_str());
}

Bounds TwoOfOurs() {
  return {.foreign = {kOurs, kOurs}, .claims = 3, .rows = 3};
}
Bounds OursAndForeign() {
  return {.foreign = {kOurs, kForeign}, .claims = 3, .rows = 3};
}

TEST(ProtocolModel, HoldsForTwoOfOurWriters) {
  ExpectHoldsEverywhere({}, TwoOfOurs());
}

TEST(ProtocolModel, HoldsForOneOfOursAndAForeignOne) {
  ExpectHoldsEverywhere({}, OursAndForeign());
}

TEST(ProtocolModel, HoldsWhenAnswersAreLost) {
  for (const bool second : {kOurs, kForeign}) {
    ExpectHoldsEverywhere(
        {}, {.foreign = {kOurs, second}, .claims = 3, .rows = 2, .lost_answers = true});
  }
}

TEST(ProtocolModel, HoldsForThreeOfOurWriters) {
  ExpectHolds({}, {.foreign = {kOurs, kOurs, kOurs}, .claims = 4, .rows = 3});
}

TEST(ProtocolModel, HoldsForTwoOfOursAndAForeignOne) {
  ExpectHolds({}, {.foreign = {kOurs, kOurs, kForeign}, .claims = 4, .rows = 3});
}

TEST(ProtocolModel, HoldsForOneOfOursAndTwoForeignOnes) {
  ExpectHolds({}, {.foreign = {kOurs, kForeign, kForeign}, .claims = 4, .rows = 3});
}

// Only as long as nobody sleeps through a removal: see the two tests at the end.
TEST(ProtocolModel, HoldsWhenOldManifestsAreRemoved) {
  for (const bool second : {kOurs, kForeign}) {
    ExpectHolds({.prune_manifests = true}, {.foreign = {kOurs, second}, .claims = 4, .rows = 2});
  }
}

TEST(ProtocolModel, WithoutASentinelThePredecessorAcknowledgesBehindTheOwnersBack) {
  ExpectBroken({.sentinel = false}, OursAndForeign(), "M9");
}

TEST(ProtocolModel, ASentinelBeforeTheClaimFencesNobodyWhoClaimsInBetween) {
  ExpectBroken({.sentinel_after_claim = false}, OursAndForeign(), "M9");
}

TEST(ProtocolModel, AReplayBeforeTheSentinelMissesWhatLandsInBetween) {
  ExpectBroken({.sentinel_before_replay = false}, OursAndForeign(), "M9");
}

TEST(ProtocolModel, AnAcknowledgementWithoutRereadingTheEpochIsFalseWhereASentinelWas) {
  ExpectBroken({.reread_before_ack = false}, TwoOfOurs(), "C1");
}

TEST(ProtocolModel, AFlushThatDoesNotCheckTheEpochTakesTheShardBack) {
  ExpectBroken({.flush_checks_epoch = false}, TwoOfOurs(), "C7");
  ExpectBroken({.flush_checks_epoch = false}, TwoOfOurs(), "C3");
}

TEST(ProtocolModel, ACleanUpByTheCursorOfAFlushUnderWayLosesRows) {
  ExpectBroken({.clean_by_committed_cursor = false}, TwoOfOurs(), "C1");
}

TEST(ProtocolModel, TheNewestSentinelAloneDoesNotStopAForeignWriter) {
  ExpectBroken({.held = Rules::Held::kNewestSentinel}, OursAndForeign(), "C1: an acknowledged row");
}

TEST(ProtocolModel, AForeignOpenerTakesAHoleOfTheCleanUpForTheEndOfTheLog) {
  ExpectBroken({.held = Rules::Held::kFences}, OursAndForeign(), "C1: an acknowledged row");
  ExpectBroken({.held = Rules::Held::kFences}, OursAndForeign(), "C1: a writer opened");
}

TEST(ProtocolModel, ASleepingOpenerOfOursPutsItsSentinelWhereTheLogIsCleaned) {
  ExpectBroken({.reread_after_replay = false}, TwoOfOurs(), "C7");
  ExpectBroken({.missing_entry_ends_open = false, .reread_after_replay = false}, TwoOfOurs(),
               "C1: a writer opened");
}

TEST(ProtocolModel, ManifestsBelowAStaleHintMustStay) {
  ExpectBroken({.prune_manifests = true, .prune_checks_hint = false},
               {.foreign = {kOurs, kForeign}, .claims = 4, .rows = 2, .clean_up = false}, "C7");
}

// What put-if-absent does not guard: a version that was removed.
TEST(ProtocolModel, AWriterThatSleepsThroughTheRemovalOfManifestsForksTheShard) {
  for (const bool second : {kOurs, kForeign}) {
    ExpectBroken({.prune_manifests = true, .nobody_sleeps_through_pruning = false},
                 {.foreign = {kOurs, second}, .claims = 4, .rows = 2, .clean_up = false}, "C7");
  }
}

TEST(ProtocolModel, AWriterThatSleepsBeforeItsHintMovesTheHintBack) {
  ExpectBroken({.prune_manifests = true, .nobody_sleeps_before_hint = false},
               {.foreign = {kOurs, kForeign}, .claims = 4, .rows = 2, .clean_up = false}, "C7");
}

}  // namespace
}  // namespace sarissa::model
