#include "env/sim/sim_disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "env/sim/sim_file_system.h"
#include "env/sim/sim_random.h"

namespace sarissa::env {
namespace {

constexpr uint64_t kSeeds = 200;

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Text(const SimDisk& disk, const std::string& path) {
  const auto files = disk.Files();
  const auto found = files.find(path);
  return found == files.end() ? "(none)" : std::string(found->second.begin(), found->second.end());
}

// One process on one disk.
struct World {
  SimDisk disk;
  SimFileSystem fs{disk};

  void Write(const std::string& path, std::string_view synced, std::string_view unsynced) {
    const auto file = fs.CreateUnnamed("/").ValueOrDie();
    ASSERT_TRUE(file->Append(Bytes(synced)).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Append(Bytes(unsynced)).ok());
    ASSERT_TRUE(file->LinkAs(path).ok());
  }
  void Crash(SimDisk::CrashMode mode, uint64_t seed = 1) {
    fs.Detach();
    SimRandom random(seed);
    disk.Crash(random, mode);
  }
};

TEST(SimDisk, SyncedFileInSyncedDirectorySurvivesEveryCrash) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    world.Write("/a", "kept", "");
    ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
    world.Crash(SimDisk::CrashMode::kRandom, seed);
    EXPECT_EQ(Text(world.disk, "/a"), "kept");
  }
}

TEST(SimDisk, UnsyncedEntryAndBytesAreDropped) {
  World world;
  world.Write("/a", "kept", "lost");
  ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
  world.Write("/b", "kept", "");
  world.Crash(SimDisk::CrashMode::kDropAllUnsynced);
  EXPECT_EQ(Text(world.disk, "/a"), "kept");
  EXPECT_EQ(Text(world.disk, "/b"), "(none)");
}

TEST(SimDisk, KillKeepsEverythingButItStaysUnsynced) {
  World world;
  world.Write("/a", "kept", "tail");
  world.Crash(SimDisk::CrashMode::kKeepAll);
  EXPECT_EQ(Text(world.disk, "/a"), "kepttail");
  world.Crash(SimDisk::CrashMode::kDropAllUnsynced);
  EXPECT_EQ(Text(world.disk, "/a"), "(none)");
}

TEST(SimDisk, RandomCrashesReachAllOutcomes) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    world.Write("/a", "kept", "tail");
    world.Crash(SimDisk::CrashMode::kRandom, seed);
    const std::string text = Text(world.disk, "/a");
    outcomes.insert(text);
    if (text == "(none)") continue;
    ASSERT_GE(text.size(), 4u);
    ASSERT_LE(text.size(), 8u);
    ASSERT_EQ(text.substr(0, 4), "kept");
  }
  EXPECT_TRUE(outcomes.contains("(none)"));
  EXPECT_TRUE(outcomes.contains("kept"));
  EXPECT_TRUE(outcomes.contains("kepttail"));
  EXPECT_TRUE(outcomes.contains("keptta"));
  outcomes.erase("kepttail");
  const auto is_torn_with_garbage = [](const std::string& text) { return text.size() == 8; };
  EXPECT_TRUE(std::any_of(outcomes.begin(), outcomes.end(), is_torn_with_garbage));
}

TEST(SimDisk, SyncedDirectoryIsLostWithItsUnsyncedParentEntry) {
  World world;
  ASSERT_TRUE(world.fs.CreateDirectory("/d").ok());
  world.Write("/d/a", "kept", "");
  ASSERT_TRUE(world.fs.SyncDirectory("/d").ok());
  world.Crash(SimDisk::CrashMode::kDropAllUnsynced);
  EXPECT_TRUE(world.disk.Files().empty());
}

TEST(SimDisk, ACrashReachesEveryDirectory) {
  World world;
  std::string directory;
  for (const char* name : {"/a", "/b", "/c"}) {
    const std::string parent = directory.empty() ? "/" : directory;
    directory += name;
    ASSERT_TRUE(world.fs.CreateDirectory(directory).ok());
    ASSERT_TRUE(world.fs.SyncDirectory(parent).ok());
  }
  const std::string lost[] = {"/a/lost", "/a/b/lost", "/a/b/c/lost"};
  for (const std::string& path : lost) world.Write(path, "entry", "");
  world.Crash(SimDisk::CrashMode::kDropAllUnsynced);
  EXPECT_TRUE(world.disk.Files().empty());
  EXPECT_TRUE(world.fs.detached());
  SimFileSystem next(world.disk);
  EXPECT_TRUE(next.Stat(directory).ok());
}

TEST(SimDisk, EntriesAreLostIndependently) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    World world;
    world.Write("/a", "", "");
    world.Write("/b", "", "");
    world.Crash(SimDisk::CrashMode::kRandom, seed);
    std::string outcome;
    for (const auto& [path, bytes] : world.disk.Files()) outcome += path;
    outcomes.insert(outcome);
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"", "/a", "/b", "/a/b"}));
}

TEST(SimDisk, RenameLeavesTheOldOrTheNewFile) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    world.Write("/final", "old", "");
    ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
    world.Write("/temporary", "new", "");
    ASSERT_TRUE(world.fs.Rename("/temporary", "/final").ok());
    world.Crash(SimDisk::CrashMode::kRandom, seed);
    outcomes.insert(Text(world.disk, "/final"));
  }
  EXPECT_EQ(outcomes, (std::set<std::string>{"old", "new"}));
}

TEST(SimDisk, RenameAcrossDirectoriesIsNeverLostOnBothSides) {
  std::set<std::string> outcomes;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    ASSERT_TRUE(world.fs.CreateDirectory("/from").ok());
    ASSERT_TRUE(world.fs.CreateDirectory("/to").ok());
    world.Write("/from/a", "tree", "");
    ASSERT_TRUE(world.fs.SyncDirectory("/from").ok());
    ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
    ASSERT_TRUE(world.fs.Rename("/from/a", "/to/b").ok());
    if (seed % 2 == 0) {
      ASSERT_TRUE(world.fs.SyncDirectory("/from").ok());
    }
    world.Crash(SimDisk::CrashMode::kRandom, seed);
    const bool at_source = Text(world.disk, "/from/a") == "tree";
    const bool at_target = Text(world.disk, "/to/b") == "tree";
    EXPECT_TRUE(at_source || at_target);
    if (seed % 2 == 0) {
      EXPECT_TRUE(at_target);
    }
  }
}

TEST(SimDisk, RemovalIsUndoneUnlessSynced) {
  World world;
  world.Write("/a", "back", "");
  world.Write("/b", "gone", "");
  ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
  ASSERT_TRUE(world.fs.RemoveFile("/b").ok());
  ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
  ASSERT_TRUE(world.fs.RemoveFile("/a").ok());
  world.Crash(SimDisk::CrashMode::kDropAllUnsynced);
  EXPECT_EQ(Text(world.disk, "/a"), "back");
  EXPECT_EQ(Text(world.disk, "/b"), "(none)");
}

TEST(SimDisk, SameSeedGivesTheSameCrash) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t hashes[2];
    for (uint64_t& hash : hashes) {
      World world;
      for (int i = 0; i < 10; ++i) world.Write("/f" + std::to_string(i), "synced", "unsynced");
      world.Crash(SimDisk::CrashMode::kRandom, seed);
      hash = world.disk.StateHash();
    }
    EXPECT_EQ(hashes[0], hashes[1]) << seed;
  }
}

TEST(SimDisk, PagesOfAFailedSyncAreNeverMadeDurable) {
  World world;
  const auto file = world.fs.CreateUnnamed("/").ValueOrDie();
  ASSERT_TRUE(file->Append(Bytes("lost")).ok());
  world.fs.SetFaultHook([](const SimOperation& operation) {
    return operation.kind == SimOperationKind::kSync ? MakeError(ErrorKind::kIo, "EIO")
                                                     : Status::OK();
  });
  EXPECT_TRUE(Is(file->Sync(), ErrorKind::kIo));
  world.fs.SetFaultHook(nullptr);
  EXPECT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->LinkAs("/a").ok());
  ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
  world.Crash(SimDisk::CrashMode::kDropAllUnsynced);
  EXPECT_EQ(Text(world.disk, "/a"), "");
}

TEST(SimDisk, ACloneCrashesAsTheDiskItselfWouldAndLeavesItAlone) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    World world;
    ASSERT_TRUE(world.fs.CreateDirectory("/d").ok());
    for (int i = 0; i < 5; ++i) world.Write("/d/f" + std::to_string(i), "synced", "unsynced");
    ASSERT_TRUE(world.fs.SyncDirectory("/").ok());
    ASSERT_TRUE(world.fs.Rename("/d/f0", "/moved").ok());
    ASSERT_TRUE(world.fs.RemoveFile("/d/f1").ok());
    const uint64_t before = world.disk.StateHash();
    const auto clone = world.disk.Clone();
    EXPECT_EQ(clone->StateHash(), before);
    SimRandom random(seed);
    clone->Crash(random, SimDisk::CrashMode::kRandom);
    EXPECT_EQ(world.disk.StateHash(), before);
    world.Crash(SimDisk::CrashMode::kRandom, seed);
    EXPECT_EQ(clone->StateHash(), world.disk.StateHash());
  }
}

TEST(SimDisk, ATornAppendLeavesAPrefixOrGarbageOfTheRightLength) {
  World world;
  world.Write("/a", "kept", "");
  const auto nameless = world.fs.CreateUnnamed("/").ValueOrDie();
  uint64_t file = 0;
  world.fs.SetAfterHook([&](const SimOperation& operation) {
    if (operation.kind == SimOperationKind::kAppend) file = operation.file;
    return Status::OK();
  });
  ASSERT_TRUE(nameless->Append(Bytes("12345678")).ok());
  world.disk.TearAppend(file, 8, 3);
  ASSERT_TRUE(nameless->LinkAs("/b").ok());
  EXPECT_EQ(Text(world.disk, "/b"), "12345678") << "no name led to it";
  const auto torn = world.disk.Clone();
  torn->TearAppend(file, 8, 3);
  EXPECT_EQ(Text(*torn, "/b"), "123");
  const auto garbled = world.disk.Clone();
  SimRandom random(1);
  garbled->TearAppend(file, 8, 3, &random);
  EXPECT_EQ(Text(*garbled, "/b").size(), 8u);
  EXPECT_EQ(Text(*garbled, "/b").substr(0, 3), "123");
  EXPECT_NE(Text(*garbled, "/b"), "12345678");
  ASSERT_TRUE(nameless->Sync().ok());
  world.disk.TearAppend(file, 8, 3);
  EXPECT_EQ(Text(world.disk, "/b"), "12345678") << "it is synced";
}

TEST(SimFileSystem, HooksFailACallBeforeOrAfterItsEffect) {
  World world;
  world.fs.SetFaultHook([](const SimOperation& operation) {
    return operation.path == "/before" ? MakeError(ErrorKind::kNoSpace, "full") : Status::OK();
  });
  world.fs.SetAfterHook([](const SimOperation& operation) {
    return operation.path == "/after" ? MakeError(ErrorKind::kIo, "lost") : Status::OK();
  });
  EXPECT_TRUE(Is(world.fs.CreateDirectory("/before"), ErrorKind::kNoSpace));
  EXPECT_TRUE(Is(world.fs.CreateDirectory("/after"), ErrorKind::kIo));
  world.fs.SetFaultHook(nullptr);
  world.fs.SetAfterHook(nullptr);
  EXPECT_FALSE(world.fs.Stat("/before").ok());
  EXPECT_TRUE(world.fs.Stat("/after").ok());
  const auto log = world.disk.operations();
  ASSERT_GE(log.size(), 2u);
  EXPECT_TRUE(log[0].failed);
  EXPECT_EQ(log[1].path, "/after");
}

TEST(SimFileSystem, DetachedProcessReachesNothing) {
  World world;
  const auto file = world.fs.CreateUnnamed("/").ValueOrDie();
  const std::shared_ptr<void> lock = world.fs.LockFile("/lock").ValueOrDie();
  world.fs.Detach();
  EXPECT_TRUE(Is(file->Append(Bytes("x")), ErrorKind::kUnavailable));
  EXPECT_TRUE(Is(world.fs.CreateDirectory("/d"), ErrorKind::kUnavailable));
  EXPECT_TRUE(Is(world.fs.Stat("/").status(), ErrorKind::kUnavailable));
  SimFileSystem next(world.disk);
  EXPECT_TRUE(next.LockFile("/lock").ok());
}

TEST(SimDisk, DamagedFileIsSeenByReaders) {
  World world;
  world.Write("/a", "good", "");
  ASSERT_TRUE(world.disk.Damage("/a", {'b', 'a', 'd'}).ok());
  const auto file = world.fs.OpenRead("/a").ValueOrDie();
  EXPECT_EQ(file->ReadAt(0, 3).ValueOrDie()->ToString(), "bad");
}

}  // namespace
}  // namespace sarissa::env
