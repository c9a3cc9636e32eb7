// Seeds of the store simulation that failed once. They run always; each says what broke. A change
// of the world changes what a seed draws, so a defect also gets a test of its own where it was.
#pragma once

#include <cstdint>

namespace sarissa::simulation {

struct NamedSeed {
  uint64_t seed;
  const char* story;
};

inline constexpr NamedSeed kPastFailures[] = {
    {15000,
     "a generation's manifest could be read back after its directory sync had failed, counted as "
     "committed, and was gone after the power loss (Commit.AManifestThatIsVisibleButPerhaps...)"},
    {5012,
     "claims piled up in a directory whose sync had failed, and a power loss left holes between "
     "them (LocalStore.NothingNewAppearsWhereASyncFailed)"},
    {11439717877340209224u,
     "a merge raised the watermark over a generation of a manifest that was not durable; after the "
     "power loss the next generation of that number was hidden, with its acknowledged rows "
     "(MergeTest.AManifestThatIsPerhapsNotDurableIsNotMerged, and the same for the clean-up)"},
    {11439717877340209356u,
     "the older memtables of a writer that was passed without knowing hid half of an append that "
     "its successor had merged (MergeReads.MemtablesOfAWriterThatWasPassed...)"},
    {1000,
     "two runs differed: the simulated disk gave two directories one number, and crashes passed "
     "over all that lay below (SimDisk.ACrashReachesEveryDirectory)"},
};

}  // namespace sarissa::simulation
