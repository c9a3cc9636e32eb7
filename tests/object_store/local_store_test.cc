#include "object_store/local_store.h"

#include <arrow/buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/sync_point.h"
#include "env/mapped_range.h"
#include "env/posix/posix_file_system.h"
#include "env/posix/posix_random.h"
#include "env/sim/sim_env.h"
#include "env/sim/sim_file_system.h"
#include "object_store/local_directories.h"
#include "tests/env/scratch_directory.h"

namespace sarissa::object_store {
namespace {

using env::SimDisk;
using env::SimFileSystem;
using env::SimOperation;
using env::SimOperationKind;

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The object's text, or the name of the error.
std::string TextOf(ObjectStore& store, const std::string& name) {
  const auto got = store.Get(name);
  return got.ok() ? (*got)->ToString() : std::string(ErrorKindName(KindOf(got.status())));
}

// A store on a simulated disk, without a scheduler.
struct Simulated {
  SimDisk disk;
  SimFileSystem fs{disk};
  env::SimRandom random{1};
  std::unique_ptr<LocalStore> store = LocalStore::Open(fs, random, "/srv/data").ValueOrDie();

  Status Put(const std::string& name, std::string_view text, PutMode mode = PutMode::kIfAbsent) {
    return store->Put(name, Bytes(text), mode);
  }
  std::string Get(const std::string& name) { return TextOf(*store, name); }
  void FailOn(SimOperationKind kind, ErrorKind error) {
    fs.SetFaultHook([kind, error](const SimOperation& operation) {
      return operation.kind == kind ? MakeError(error, "injected") : Status::OK();
    });
  }
  std::vector<std::string> Log() const {
    std::vector<std::string> lines;
    for (const SimOperation& operation : disk.operations()) {
      if (!env::IsMutation(operation.kind) || operation.failed) continue;
      lines.push_back(fmt::format("{} {}", SimOperationName(operation.kind), operation.path));
    }
    return lines;
  }
};

// Positions of lines in the log; a missing line is a failure.
size_t At(const std::vector<std::string>& log, const std::string& line) {
  const auto found = std::find(log.begin(), log.end(), line);
  EXPECT_NE(found, log.end()) << line;
  return static_cast<size_t>(found - log.begin());
}

TEST(LocalStore, EverySyncPrecedesTheAnswer) {
  Simulated world;
  ASSERT_TRUE(world.Put("t/_mem_wal/s/1.arrow", "row").ok());
  const std::vector<std::string> log = world.Log();
  // Every directory that was made is followed by the sync of its parent.
  int made = 0;
  for (size_t i = 0; i < log.size(); ++i) {
    if (!log[i].starts_with("create_directory ")) continue;
    ++made;
    const std::string parent = ParentDirectory(log[i].substr(17));
    EXPECT_NE(std::find(log.begin() + static_cast<std::ptrdiff_t>(i), log.end(),
                        "sync_directory " + parent),
              log.end())
        << log[i];
  }
  EXPECT_EQ(made, 5);
  const size_t link = At(log, "link /srv/data/t/_mem_wal/s/1.arrow");
  const auto synced = std::find_if(
      log.begin(), log.end(), [](const std::string& line) { return line.starts_with("sync /"); });
  ASSERT_NE(synced, log.end());
  EXPECT_LT(static_cast<size_t>(synced - log.begin()), link);
  EXPECT_LT(link, At(log, "sync_directory /srv/data/t/_mem_wal/s"));
}

TEST(LocalStore, HotPathDoesNothingExtra) {
  Simulated world;
  ASSERT_TRUE(world.Put("t/wal/1", "row").ok());
  world.disk.ClearOperations();
  ASSERT_TRUE(world.Put("t/wal/2", "row").ok());
  std::vector<SimOperationKind> kinds;
  for (const SimOperation& operation : world.disk.operations()) kinds.push_back(operation.kind);
  EXPECT_EQ(kinds, (std::vector{SimOperationKind::kCreateUnnamed, SimOperationKind::kAppend,
                                SimOperationKind::kSync, SimOperationKind::kLink,
                                SimOperationKind::kSyncDirectory}));
}

TEST(LocalStore, DirectoriesOfAnEarlierProcessAreSyncedUpwardOnce) {
  Simulated world;
  ASSERT_TRUE(world.fs.CreateDirectory("/srv/data/t").ok());
  ASSERT_TRUE(world.fs.CreateDirectory("/srv/data/t/wal").ok());
  world.disk.ClearOperations();
  ASSERT_TRUE(world.Put("t/wal/1", "row").ok());
  const std::vector<std::string> log = world.Log();
  const size_t link = At(log, "link /srv/data/t/wal/1");
  EXPECT_LT(At(log, "sync_directory /srv"), link);
  EXPECT_LT(At(log, "sync_directory /srv/data"), link);
  EXPECT_LT(At(log, "sync_directory /srv/data/t"), link);
}

TEST(LocalStore, AcknowledgedObjectsSurviveEveryCrash) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Simulated world;
    // Made by someone who never synced.
    ASSERT_TRUE(world.fs.CreateDirectory("/srv/data/t").ok());
    ASSERT_TRUE(world.Put("t/wal/1", "first").ok());
    ASSERT_TRUE(world.Put("t/manifest", "old", PutMode::kOverwrite).ok());
    ASSERT_TRUE(world.Put("t/manifest", "new", PutMode::kOverwrite).ok());
    ASSERT_TRUE(world.Put("u/v/w", "last").ok());
    world.fs.Detach();
    env::SimRandom random(seed);
    world.disk.Crash(
        random, seed == 1 ? SimDisk::CrashMode::kDropAllUnsynced : SimDisk::CrashMode::kRandom);
    SimFileSystem fs(world.disk);
    const auto store = LocalStore::Open(fs, random, "/srv/data").ValueOrDie();
    EXPECT_EQ(TextOf(*store, "t/wal/1"), "first");
    EXPECT_EQ(TextOf(*store, "t/manifest"), "new");
    EXPECT_EQ(TextOf(*store, "u/v/w"), "last");
  }
}

// Whoever is told that a name is taken builds on the object that has it.
TEST(LocalStore, AnObjectThatAnAnswerSpeaksOfSurvivesACrash) {
  Simulated world;
  ASSERT_TRUE(world.Put("t/wal/1", "row").ok());
  // Another process has given the name, and is about to sync the directory.
  {
    auto file = *world.fs.CreateUnnamed("/srv/data/t/wal");
    ASSERT_TRUE(file->Append(Bytes("theirs")).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->LinkAs("/srv/data/t/wal/2").ok());
  }
  EXPECT_TRUE(Is(world.Put("t/wal/2", "ours"), ErrorKind::kAlreadyExists));
  world.fs.Detach();
  env::SimRandom random{1};
  world.disk.Crash(random, SimDisk::CrashMode::kDropAllUnsynced);
  SimFileSystem fs(world.disk);
  const auto store = LocalStore::Open(fs, random, "/srv/data").ValueOrDie();
  EXPECT_EQ(TextOf(*store, "t/wal/2"), "theirs");
}

// Kills the process at every mutating call of a script, then loses power; what was acknowledged
// must be there.
TEST(LocalStore, CrashAtEveryStepLosesNothingAcknowledged) {
  for (uint64_t step = 1;; ++step) {
    SCOPED_TRACE(step);
    bool finished = false;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(seed);
      SimDisk disk;
      env::SimScheduler scheduler(seed);
      std::vector<std::string> acknowledged;
      {
        env::SimEnv world(scheduler, disk, {.seed = seed});
        world.file_system().SetFaultHook([&](const SimOperation& operation) {
          if (env::IsMutation(operation.kind) && disk.mutations() + 1 == step) world.Kill();
          return Status::OK();
        });
        std::unique_ptr<LocalStore> store;
        world.env().storage->Post([&] {
          store =
              LocalStore::Open(world.file_system(), *world.env().random, "/srv/data").ValueOrDie();
          for (const std::string name : {"a/b/1", "a/b/2", "c"}) {
            world.env().storage->Post([&, name] {
              if (store->Put(name, Bytes(name), PutMode::kIfAbsent).ok())
                acknowledged.push_back(name);
            });
          }
        });
        EXPECT_TRUE(scheduler.RunUntilIdle());
        finished = world.process().alive();
      }
      disk.Crash(scheduler.random(), env::SimDisk::CrashMode::kRandom);
      SimFileSystem fs(disk);
      const auto store = LocalStore::Open(fs, scheduler.random(), "/srv/data").ValueOrDie();
      for (const std::string& name : acknowledged) {
        const auto got = store->Get(name);
        ASSERT_TRUE(got.ok()) << name << ": " << got.status().ToString();
        EXPECT_EQ((*got)->ToString(), name);
      }
      if (finished) {
        EXPECT_EQ(acknowledged.size(), 3u);
      }
    }
    if (finished) break;
    ASSERT_LT(step, 1000u);
  }
}

TEST(LocalStore, FailedFileSyncMeansNothingLanded) {
  Simulated world;
  world.FailOn(SimOperationKind::kSync, ErrorKind::kIo);
  EXPECT_TRUE(Is(world.Put("a", "row"), ErrorKind::kIo));
  EXPECT_EQ(world.Get("a"), "not_found");
}

TEST(LocalStore, FailedDirectorySyncMeansOutcomeUnknown) {
  Simulated world;
  ASSERT_TRUE(world.Put("first", "row").ok());
  world.FailOn(SimOperationKind::kSyncDirectory, ErrorKind::kIo);
  const Status status = world.Put("a", "row");
  EXPECT_TRUE(Is(status, ErrorKind::kOutcomeUnknown)) << status.ToString();
  EXPECT_EQ(world.Get("a"), "row");
  EXPECT_TRUE(Is(world.Put("first", "new", PutMode::kOverwrite), ErrorKind::kIo));
  EXPECT_EQ(world.Get("first"), "row");
  // Nothing is said about an existing object while its entry may be lost.
  EXPECT_TRUE(Is(world.Put("a", "row"), ErrorKind::kIo));
  // A later sync that succeeds says nothing about what the failed one lost.
  world.fs.SetFaultHook(nullptr);
  EXPECT_TRUE(Is(world.Put("a", "row"), ErrorKind::kIo));
  EXPECT_TRUE(Is(world.Put("b", "row"), ErrorKind::kIo));
  EXPECT_TRUE(world.Put("d/a", "row").ok() == false) << "its entry in the root would be lost";
}

TEST(LocalStore, FailedSyncOfANewDirectoryRefusesTheWrite) {
  Simulated world;
  world.FailOn(SimOperationKind::kSyncDirectory, ErrorKind::kIo);
  EXPECT_TRUE(Is(world.Put("d/a", "row"), ErrorKind::kIo));
  EXPECT_EQ(world.Get("d/a"), "not_found");
  world.fs.SetFaultHook(nullptr);
  EXPECT_TRUE(Is(world.Put("d/a", "row"), ErrorKind::kIo)) << "the sync that failed stays failed";
}

TEST(LocalStore, FullDiskIsToldAsSuchAndLeavesNothing) {
  Simulated world;
  world.FailOn(SimOperationKind::kAppend, ErrorKind::kNoSpace);
  const auto writer = world.store->Create("a").ValueOrDie();
  EXPECT_TRUE(Is(writer->Append(Bytes("row")), ErrorKind::kNoSpace));
  world.fs.SetFaultHook(nullptr);
  EXPECT_FALSE(writer->Finish(PutMode::kIfAbsent).ok());
  EXPECT_EQ(world.Get("a"), "not_found");
}

TEST(LocalStore, FailedRenameLeavesTheOldObject) {
  Simulated world;
  ASSERT_TRUE(world.Put("a", "old").ok());
  world.FailOn(SimOperationKind::kRename, ErrorKind::kNoSpace);
  EXPECT_TRUE(Is(world.Put("a", "new", PutMode::kOverwrite), ErrorKind::kNoSpace));
  EXPECT_EQ(world.Get("a"), "old");
  EXPECT_EQ(world.disk.Files().size(), 1u);
}

TEST(LocalStore, LinkThatFailedInTheDeviceIsUnknown) {
  Simulated world;
  world.fs.SetAfterHook([](const SimOperation& operation) {
    return operation.kind == SimOperationKind::kLink ? MakeError(ErrorKind::kIo, "EIO")
                                                     : Status::OK();
  });
  EXPECT_TRUE(Is(world.Put("a", "row"), ErrorKind::kOutcomeUnknown));
}

TEST(LocalStore, NothingNewAppearsWhereASyncFailed) {
  Simulated world;
  ASSERT_TRUE(world.Put("d/first", "row").ok());
  world.fs.SetFaultHook([](const SimOperation& operation) {
    return operation.kind == SimOperationKind::kSyncDirectory ? MakeError(ErrorKind::kIo, "EIO")
                                                              : Status::OK();
  });
  EXPECT_TRUE(Is(world.Put("d/unknown", "row"), ErrorKind::kOutcomeUnknown));
  world.fs.SetFaultHook(nullptr);
  EXPECT_TRUE(Is(world.Put("d/refused", "row"), ErrorKind::kIo));
  EXPECT_TRUE(Is(world.store->Head("d/refused").status(), ErrorKind::kNotFound));
  EXPECT_TRUE(world.Put("elsewhere/a", "row").ok());
}

TEST(LocalStore, DeletedTreeIsMadeAgain) {
  Simulated world;
  ASSERT_TRUE(world.Put("t/wal/1", "row").ok());
  const auto writer = world.store->Create("t/wal/2").ValueOrDie();
  // Another process deletes the store.
  ASSERT_TRUE(world.fs.RemoveFile("/srv/data/t/wal/1").ok());
  ASSERT_TRUE(world.fs.RemoveDirectory("/srv/data/t/wal").ok());
  ASSERT_TRUE(world.fs.RemoveDirectory("/srv/data/t").ok());
  world.disk.ClearOperations();
  ASSERT_TRUE(world.Put("t/wal/3", "row").ok());
  const std::vector<std::string> log = world.Log();
  EXPECT_LT(At(log, "create_directory /srv/data/t"), At(log, "sync_directory /srv/data"));
  EXPECT_LT(At(log, "create_directory /srv/data/t/wal"), At(log, "sync_directory /srv/data/t"));
  ASSERT_TRUE(writer->Finish(PutMode::kIfAbsent).ok());
  EXPECT_EQ(world.Get("t/wal/3"), "row");
}

TEST(LocalStore, WriterWhoseDirectoryVanishedStillLands) {
  Simulated world;
  const auto writer = world.store->Create("t/wal/1").ValueOrDie();
  ASSERT_TRUE(writer->Append(Bytes("row")).ok());
  ASSERT_TRUE(world.store->DeletePrefix("t/").ok());
  ASSERT_TRUE(writer->Finish(PutMode::kIfAbsent).ok());
  EXPECT_EQ(world.Get("t/wal/1"), "row");
}

TEST(LocalStore, DeletePrefixIsDurable) {
  Simulated world;
  ASSERT_TRUE(world.Put("t/a/b/1", "row").ok());
  ASSERT_TRUE(world.store->DeletePrefix("t/").ok());
  world.fs.Detach();
  env::SimRandom random(1);
  world.disk.Crash(random, SimDisk::CrashMode::kDropAllUnsynced);
  EXPECT_TRUE(world.disk.Files().empty());
}

TEST(LocalStore, TemporaryFilesAreInvisible) {
  Simulated world;
  ASSERT_TRUE(world.Put("d/a", "row").ok());
  const auto file = world.fs.CreateUnnamed("/srv/data/d").ValueOrDie();
  ASSERT_TRUE(file->LinkAs("/srv/data/d/.tmp.0123").ok());
  const Listing listing = world.store->List("d/", {}).ValueOrDie();
  ASSERT_EQ(listing.objects.size(), 1u);
  EXPECT_EQ(listing.objects[0].name, "d/a");
  EXPECT_TRUE(Is(world.Put("d/.tmp.x", "row"), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(world.Put(".tmp.x/a", "row"), ErrorKind::kInvalid));
  ASSERT_TRUE(world.store->DeletePrefix("d/").ok());
  EXPECT_TRUE(world.disk.Files().empty());
}

TEST(LocalStore, ObjectInTheWayOfAFolderIsAnError) {
  Simulated world;
  ASSERT_TRUE(world.Put("a", "object").ok());
  EXPECT_FALSE(world.Put("a/b", "row").ok());
  EXPECT_EQ(world.Get("a"), "object");
}

TEST(LocalStore, RacingTasksHaveOneWinner) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    SimDisk disk;
    env::SimScheduler scheduler(seed);
    env::SimEnv world(scheduler, disk, {.seed = seed});
    SimFileSystem setup(disk);
    const auto store =
        LocalStore::Open(world.file_system(), *world.env().random, "/data").ValueOrDie();
    int winners = 0;
    int losers = 0;
    for (int i = 0; i < 4; ++i) {
      world.env().storage->Post([&, i] {
        const Status status = store->Put("t/1", Bytes(std::to_string(i)), PutMode::kIfAbsent);
        if (status.ok()) ++winners;
        if (Is(status, ErrorKind::kAlreadyExists)) ++losers;
      });
    }
    EXPECT_TRUE(scheduler.RunUntilIdle());
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(losers, 3);
  }
}

TEST(LocalStore, PutIfAbsentHasOneWinner) {
  const test::ScratchDirectory scratch;
  env::PosixFileSystem fs({.sync_mode = env::SyncMode::kNone, .unnamed_files = true});
  env::PosixRandom random;
  const auto store = LocalStore::Open(fs, random, scratch.path()).ValueOrDie();
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> winners = 0;
    std::latch start(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        const Status status =
            store->Put(fmt::format("d{}/x", round), Bytes(std::to_string(i)), PutMode::kIfAbsent);
        if (status.ok()) ++winners;
        EXPECT_TRUE(status.ok() || Is(status, ErrorKind::kAlreadyExists)) << status.ToString();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(winners, 1);
  }
}

TEST(LocalStore, ConcurrentWritersShareDirectorySyncs) {
  const test::ScratchDirectory scratch;
  env::PosixFileSystem fs;
  env::PosixRandom random;
  const auto store = LocalStore::Open(fs, random, scratch.path()).ValueOrDie();
  ASSERT_TRUE(store->Put("warm", {}, PutMode::kIfAbsent).ok());
  constexpr int kWriters = 6;
  std::atomic<int> syncs = 0;
  std::atomic<int> linked = 0;
  SyncPoints::Instance().Arm("local_store.after_link", [&] { ++linked; });
  // The first sync lasts until every writer has linked: all of them then wait for the second.
  SyncPoints::Instance().Arm("posix_file_system.sync_directory", [&] {
    if (++syncs > 1) return;
    while (linked < kWriters) std::this_thread::yield();
  });
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      EXPECT_TRUE(store->Put(std::to_string(i), Bytes("row"), PutMode::kIfAbsent).ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  SyncPoints::Instance().Clear();
  EXPECT_GE(syncs, 2);
  EXPECT_LE(syncs, kWriters);
}

TEST(LocalStore, LargeRangesAreMapped) {
  const test::ScratchDirectory scratch;
  env::PosixFileSystem fs({.sync_mode = env::SyncMode::kNone, .unnamed_files = true});
  env::PosixRandom random;
  const auto store = LocalStore::Open(fs, random, scratch.path()).ValueOrDie();
  const std::string big(static_cast<size_t>(env::kMapThresholdBytes) + 10, 'x');
  ASSERT_TRUE(store->Put("big", Bytes(big), PutMode::kIfAbsent).ok());
  EXPECT_TRUE(env::IsMapped(*store->GetRange("big", 3, env::kMapThresholdBytes).ValueOrDie()));
  EXPECT_FALSE(env::IsMapped(*store->GetRange("big", 3, env::kMapThresholdBytes - 1).ValueOrDie()));
}

TEST(LocalDirectories, ParentOfEveryShape) {
  EXPECT_EQ(ParentDirectory("/a/b"), "/a");
  EXPECT_EQ(ParentDirectory("/a"), "/");
  EXPECT_EQ(ParentDirectory("/"), "/");
  EXPECT_EQ(ParentDirectory("a"), ".");
  EXPECT_EQ(ParentDirectory("a/b"), "a");
}

}  // namespace
}  // namespace sarissa::object_store
