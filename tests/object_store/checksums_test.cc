// The checksum sidecar's format, the store that writes it and the store that checks against it.
#include <arrow/buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "env/mapped_range.h"
#include "env/posix/posix_file_system.h"
#include "env/posix/posix_random.h"
#include "env/sim/sim_random.h"
#include "object_store/block_checksums.h"
#include "object_store/checksum_recorder.h"
#include "object_store/fault_store.h"
#include "object_store/local_store.h"
#include "object_store/memory_store.h"
#include "object_store/metered_store.h"
#include "object_store/verified_store.h"
#include "tests/counts.h"
#include "tests/env/scratch_directory.h"
#include "tests/object_store/counting_metrics.h"

namespace sarissa::object_store {
namespace {

using testing::CountingMetrics;
using testing::kChecksumFailures;
using testing::kIgnoredSidecars;

constexpr size_t kBlock = kChecksumBlockBytes;

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string RandomText(env::Random& random, size_t size) {
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>(random.Next());
  return text;
}

FileChecksums ChecksumsOf(std::string_view text) {
  BlockChecksummer checksummer;
  checksummer.Append(Bytes(text));
  return checksummer.Current();
}

ChecksumTable Example() {
  env::SimRandom random(7);
  return {{"a/b.lance", ChecksumsOf(RandomText(random, 3 * kBlock + 5))},
          {"empty", ChecksumsOf("")},
          {"one block", ChecksumsOf(RandomText(random, kBlock))}};
}

TEST(BlockChecksums, OneCrcPerBlockHoweverTheBytesCome) {
  env::SimRandom random(1);
  for (const size_t size :
       {size_t{0}, size_t{1}, kBlock - 1, kBlock, kBlock + 1, 5 * kBlock + 77}) {
    const std::string text = RandomText(random, size);
    FileChecksums expected{.size = size, .block_bytes = kBlock, .blocks = {}};
    for (size_t at = 0; at < size; at += kBlock)
      expected.blocks.push_back(Crc32c(Bytes(std::string_view(text).substr(at, kBlock))));
    BlockChecksummer pieces;
    for (size_t at = 0; at < size;) {
      const size_t piece = std::min<size_t>(size - at, random.Below(kBlock * 3 / 2) + 1);
      pieces.Append(Bytes(std::string_view(text).substr(at, piece)));
      at += piece;
    }
    EXPECT_EQ(pieces.Current(), expected) << size;
    EXPECT_EQ(ChecksumsOf(text), expected) << size;
  }
}

TEST(BlockChecksums, ATableComesBackAsItWasWritten) {
  for (const ChecksumTable& table : {ChecksumTable{}, Example()}) {
    const std::string bytes = EncodeChecksumTable(table).ValueOrDie();
    EXPECT_EQ(DecodeChecksumTable(Bytes(bytes)).ValueOrDie(), table);
  }
}

TEST(BlockChecksums, ANameThatIsNoRelativeNameIsNotWritten) {
  EXPECT_TRUE(Is(EncodeChecksumTable({{"../x", {}}}).status(), ErrorKind::kInvalid));
  EXPECT_TRUE(
      Is(EncodeChecksumTable({{std::string(70'000, 'x'), {}}}).status(), ErrorKind::kInvalid));
}

TEST(BlockChecksums, EveryFlippedBitAndEveryCutOfTheSidecarIsSeen) {
  const std::string whole = EncodeChecksumTable(Example()).ValueOrDie();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Status status = DecodeChecksumTable(Bytes(damaged)).status();
    const bool version = bit / 8 == 4 || bit / 8 == 5;
    EXPECT_TRUE(Is(status, version ? ErrorKind::kUnsupported : ErrorKind::kCorrupt)) << bit;
  }
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(DecodeChecksumTable(Bytes(whole).first(length)).ok()) << length;
  EXPECT_FALSE(DecodeChecksumTable(Bytes(whole + '\0')).ok());
}

// Lengths and counts that lie under a checksum that fits.
TEST(BlockChecksums, ForgedContentIsRefusedWithoutBeingBelieved) {
  const auto forged = [](uint32_t count, const std::string& body) {
    std::string bytes = "SRSC";
    AppendLittleEndian(bytes, uint16_t{1});
    AppendLittleEndian(bytes, uint16_t{0});
    AppendLittleEndian(bytes, count);
    bytes += body;
    AppendCrc32c(bytes);
    return DecodeChecksumTable(Bytes(bytes)).status();
  };
  const auto file = [](std::string_view name, uint64_t size, uint32_t block, size_t blocks) {
    std::string bytes;
    AppendLittleEndian(bytes, static_cast<uint16_t>(name.size()));
    bytes += name;
    AppendLittleEndian(bytes, size);
    AppendLittleEndian(bytes, block);
    for (size_t i = 0; i < blocks; ++i) AppendLittleEndian(bytes, uint32_t{0});
    return bytes;
  };
  EXPECT_TRUE(forged(1, file("a", 10, 4, 3)).ok());
  EXPECT_TRUE(Is(forged(0xFFFFFFFF, ""), ErrorKind::kCorrupt));
  EXPECT_TRUE(Is(forged(2, file("a", 10, 4, 3)), ErrorKind::kCorrupt));
  EXPECT_TRUE(Is(forged(1, file("a", 10, 4, 4)), ErrorKind::kCorrupt)) << "bytes left over";
  EXPECT_TRUE(Is(forged(1, file("a", UINT64_MAX, 1, 3)), ErrorKind::kCorrupt));
  EXPECT_TRUE(Is(forged(1, file("a", UINT64_MAX, UINT32_MAX, 3)), ErrorKind::kCorrupt));
  EXPECT_TRUE(Is(forged(1, file("a", 10, 0, 0)), ErrorKind::kCorrupt));
  EXPECT_TRUE(Is(forged(1, file("../a", 4, 4, 1)), ErrorKind::kCorrupt));
  EXPECT_TRUE(Is(forged(1, std::string("\xFF\xFF", 2)), ErrorKind::kCorrupt));
  EXPECT_TRUE(Is(forged(2, file("a", 4, 4, 1) + file("a", 4, 4, 1)), ErrorKind::kCorrupt));
}

struct Recorded {
  MemoryStore memory;
  FaultStore faulty{memory};
  ChecksumRecorder store{faulty, "g/"};

  Status Put(const std::string& name, std::string_view text, PutMode mode = PutMode::kIfAbsent) {
    return store.Put(name, Bytes(text), mode);
  }
  void NextFinishIs(FaultAction action, ErrorKind kind) {
    faulty.ClearRules();
    faulty.AddRule({.operation = StoreOperation::kFinish,
                    .nth = 1,
                    .action = action,
                    .status = MakeError(kind, "made up")});
  }
};

TEST(ChecksumRecorder, KnowsWhatLiesBelowThePrefixAndNothingElse) {
  Recorded world;
  ASSERT_TRUE(world.Put("g/a", "one").ok());
  ASSERT_TRUE(world.Put("g/d/b", "two").ok());
  ASSERT_TRUE(world.Put("h", "three").ok());
  ASSERT_TRUE(world.Put("g/gone", "four").ok());
  ASSERT_TRUE(world.store.Delete("g/gone").ok());
  {
    const auto unfinished = world.store.Create("g/unfinished").ValueOrDie();
  }
  EXPECT_EQ(world.store.checksums(),
            (ChecksumTable{{"a", ChecksumsOf("one")}, {"d/b", ChecksumsOf("two")}}));
  ASSERT_TRUE(world.store.DeletePrefix("g/d/").ok());
  EXPECT_EQ(world.store.checksums(), (ChecksumTable{{"a", ChecksumsOf("one")}}));
  ASSERT_TRUE(world.store.PutSidecar().ok());
  const auto sidecar =
      world.memory.Get(std::string("g/") + kChecksumSidecarName).ValueOrDie()->ToString();
  EXPECT_EQ(DecodeChecksumTable(Bytes(sidecar)).ValueOrDie(), world.store.checksums());
  ASSERT_TRUE(world.store.DeletePrefix("g/").ok());
  EXPECT_TRUE(world.store.checksums().empty());
}

TEST(ChecksumRecorder, TheLastContentOfANameCounts) {
  Recorded world;
  ASSERT_TRUE(world.Put("g/a", "one").ok());
  ASSERT_TRUE(world.Put("g/a", "newer", PutMode::kOverwrite).ok());
  EXPECT_EQ(world.store.checksums().at("a"), ChecksumsOf("newer"));
  EXPECT_TRUE(Is(world.Put("g/a", "late"), ErrorKind::kAlreadyExists));
  EXPECT_EQ(world.store.checksums().at("a"), ChecksumsOf("newer"));
  world.NextFinishIs(FaultAction::kFail, ErrorKind::kNoSpace);
  EXPECT_FALSE(world.Put("g/a", "never", PutMode::kOverwrite).ok());
  EXPECT_EQ(world.store.checksums().at("a"), ChecksumsOf("newer"));
  world.NextFinishIs(FaultAction::kLandedAnswerLost, ErrorKind::kOutcomeUnknown);
  EXPECT_FALSE(world.Put("g/a", "perhaps", PutMode::kOverwrite).ok());
  EXPECT_FALSE(world.store.checksums().contains("a")) << "either may be there: unverified";
}

// As the commit of a manifest does it: the name is taken, and reading it back shows that by us.
TEST(ChecksumRecorder, APutThatLandedWithoutAnAnswerCounts) {
  Recorded world;
  world.NextFinishIs(FaultAction::kLandedAnswerLost, ErrorKind::kOutcomeUnknown);
  EXPECT_TRUE(Is(world.Put("g/a", "manifest"), ErrorKind::kOutcomeUnknown));
  EXPECT_TRUE(Is(world.Put("g/a", "manifest"), ErrorKind::kAlreadyExists));
  EXPECT_EQ(world.store.checksums().at("a"), ChecksumsOf("manifest"));
  world.NextFinishIs(FaultAction::kNotLandedAnswerLost, ErrorKind::kOutcomeUnknown);
  EXPECT_TRUE(Is(world.Put("g/b", "manifest"), ErrorKind::kOutcomeUnknown));
  EXPECT_TRUE(world.Put("g/b", "other bytes").ok());
  EXPECT_EQ(world.store.checksums().at("b"), ChecksumsOf("other bytes"));
}

// Files below "g/" of some store, with their sidecar.
struct Verified {
  explicit Verified(ObjectStore& inner) : store(inner) {}

  void Write(const ChecksumTable& extra,
             const std::vector<std::pair<std::string, std::string>>& files) {
    ChecksumRecorder recorder(store, "g/");
    for (const auto& [name, text] : files)
      ASSERT_TRUE(recorder.Put("g/" + name, Bytes(text), PutMode::kOverwrite).ok());
    ChecksumTable table = recorder.checksums();
    table.insert(extra.begin(), extra.end());
    const std::string bytes = EncodeChecksumTable(table).ValueOrDie();
    ASSERT_TRUE(
        store.Put(std::string("g/") + kChecksumSidecarName, Bytes(bytes), PutMode::kOverwrite)
            .ok());
  }
  void Replace(const std::string& name, std::string_view text) {
    ASSERT_TRUE(store.Put("g/" + name, Bytes(text), PutMode::kOverwrite).ok());
  }
  std::unique_ptr<VerifiedStore> Open() {
    return VerifiedStore::Open(store, "g/", metrics).ValueOrDie();
  }

  ObjectStore& store;
  CountingMetrics metrics;
};

TEST(VerifiedStore, GivesRangesAsTheyWereWrittenAndFindsTheDamagedBlockOnly) {
  const uint64_t seed = tests::SeedFor("verified ranges");
  SCOPED_TRACE(fmt::format("SARISSA_SEED={}", seed));
  env::SimRandom random(seed);
  MemoryStore memory;
  Verified world(memory);
  const std::string text = RandomText(random, 40 * kBlock + 1234);
  world.Write({}, {{"f", text}});
  for (int round = 0; round < 40; ++round) {
    const size_t hit = random.Below(text.size());
    std::string damaged = text;
    damaged[hit] = static_cast<char>(damaged[hit] ^ (1 << random.Below(8)));
    world.Replace("f", damaged);
    const auto store = world.Open();
    const auto reader = store->Open("g/f").ValueOrDie();
    for (int read = 0; read < 50; ++read) {
      const size_t most = read % 3 == 0 ? text.size() : read % 3 == 1 ? 3 * kBlock : 100;
      const size_t offset = random.Below(text.size());
      const size_t length = std::min<size_t>(random.Below(most) + 1, text.size() - offset);
      const auto got = reader->ReadRange(offset, length);
      const bool touches =
          offset / kBlock <= hit / kBlock && hit / kBlock <= (offset + length - 1) / kBlock;
      ASSERT_EQ(got.ok(), !touches)
          << got.status() << " for " << hit << " in " << offset << "+" << length;
      if (got.ok()) {
        ASSERT_EQ((*got)->ToString(), text.substr(offset, length));
        continue;
      }
      ASSERT_TRUE(Is(got.status(), ErrorKind::kCorrupt));
      const std::string message = got.status().message();
      ASSERT_NE(message.find("g/f"), std::string::npos) << message;
      ASSERT_NE(message.find(fmt::format("offset {} ", hit / kBlock * kBlock)), std::string::npos)
          << message;
    }
    EXPECT_TRUE(Is(store->Get("g/f").status(), ErrorKind::kCorrupt));
  }
  EXPECT_GE(world.metrics.total(kChecksumFailures), 40);
  EXPECT_EQ(world.metrics.total(kIgnoredSidecars), 0);
}

TEST(VerifiedStore, RangesOutsideTheFileAreRefusedAsTheInnerStoreDoes) {
  MemoryStore memory;
  Verified world(memory);
  world.Write({}, {{"f", "0123456789"}, {"empty", ""}});
  const auto store = world.Open();
  const auto reader = store->Open("g/f").ValueOrDie();
  EXPECT_TRUE(Is(reader->ReadRange(5, 6).status(), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(reader->ReadRange(UINT64_MAX, 2).status(), ErrorKind::kInvalid));
  EXPECT_EQ(reader->ReadRange(10, 0).ValueOrDie()->size(), 0);
  EXPECT_EQ(store->Get("g/empty").ValueOrDie()->size(), 0);
  EXPECT_EQ(store->GetRange("g/f", 3, 4).ValueOrDie()->ToString(), "3456");
}

TEST(VerifiedStore, ABlockIsReadWholeOnceThenOnlyWhatIsAsked) {
  MemoryStore memory;
  CountingMetrics bytes;
  MeteredStore metered(memory, bytes);
  Verified world(metered);
  world.Write({}, {{"f", std::string(4 * kBlock, 'x')}});
  const auto reader = world.Open()->Open("g/f").ValueOrDie();
  const auto read = [&](uint64_t offset, uint64_t length) {
    const double before = bytes.total("object_store_bytes_total");
    EXPECT_EQ(reader->ReadRange(offset, length).ValueOrDie()->size(), static_cast<int64_t>(length));
    return bytes.total("object_store_bytes_total") - before;
  };
  EXPECT_EQ(read(kBlock + 10, 20), kBlock);
  EXPECT_EQ(read(kBlock + 10, 20), 20);
  EXPECT_EQ(read(kBlock + 10, kBlock), 2 * kBlock - 10) << "only the block that is new";
  EXPECT_EQ(read(kBlock + 10, kBlock), kBlock);
}

TEST(VerifiedStore, AnotherSizeIsSeenWhenTheFileIsOpened) {
  MemoryStore memory;
  Verified world(memory);
  world.Write({}, {{"f", "0123456789"}});
  for (const std::string text : {"", "012345678", "01234567890"}) {
    world.Replace("f", text);
    const Status status = world.Open()->Open("g/f").status();
    EXPECT_TRUE(Is(status, ErrorKind::kCorrupt)) << status;
    EXPECT_NE(status.message().find("g/f"), std::string::npos) << status;
  }
  ASSERT_TRUE(memory.Delete("g/f").ok());
  EXPECT_TRUE(Is(world.Open()->Open("g/f").status(), ErrorKind::kNotFound));
}

TEST(VerifiedStore, ReadsUnverifiedWhatNoUsableSidecarNames) {
  MemoryStore memory;
  FaultStore faulty(memory);
  Verified world(faulty);
  world.Write({}, {{"f", "0123456789"}});
  world.Replace("new", "abc");
  EXPECT_EQ(world.Open()->Get("g/new").ValueOrDie()->ToString(), "abc");
  ASSERT_TRUE(memory.Put("h/f", Bytes("elsewhere"), PutMode::kOverwrite).ok());
  EXPECT_EQ(world.Open()->Get("h/f").ValueOrDie()->ToString(), "elsewhere");
  world.Replace("f", "012345678?");
  ASSERT_FALSE(world.Open()->Get("g/f").ok());

  const std::string sidecar = std::string("g/") + kChecksumSidecarName;
  const std::string whole = memory.Get(sidecar).ValueOrDie()->ToString();
  const auto unverified = [&] { return world.Open()->Get("g/f").ok(); };
  std::string future = whole;
  future[4] = 2;
  world.Replace(kChecksumSidecarName, future);
  EXPECT_TRUE(unverified());
  EXPECT_EQ(world.metrics.total(kIgnoredSidecars), 1);
  world.Replace(kChecksumSidecarName, whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(unverified());
  EXPECT_EQ(world.metrics.total(kIgnoredSidecars), 2);
  world.Replace(kChecksumSidecarName, whole);
  faulty.AddRule({.operation = StoreOperation::kRead,
                  .name_glob = sidecar,
                  .nth = 1,
                  .status = MakeError(ErrorKind::kIo, "bad sector")});
  EXPECT_TRUE(unverified());
  EXPECT_EQ(world.metrics.total(kIgnoredSidecars), 3);
  EXPECT_FALSE(unverified());
  ASSERT_TRUE(memory.Delete(sidecar).ok());
  EXPECT_TRUE(unverified());
  EXPECT_EQ(world.metrics.total(kIgnoredSidecars), 3) << "absence is nothing special";
}

TEST(VerifiedStore, AStoreThatDoesNotAnswerIsNotTakenForAFolderWithoutSidecar) {
  MemoryStore memory;
  FaultStore faulty(memory);
  faulty.AddRule({.operation = StoreOperation::kOpen});
  CountingMetrics metrics;
  EXPECT_TRUE(Is(VerifiedStore::Open(faulty, "g/", metrics).status(), ErrorKind::kUnavailable));
}

struct OnDisk {
  OnDisk() { local = LocalStore::Open(file_system, random, scratch / "root").ValueOrDie(); }
  test::ScratchDirectory scratch;
  env::PosixFileSystem file_system{{.sync_mode = env::SyncMode::kNone, .unnamed_files = true}};
  env::PosixRandom random;
  std::unique_ptr<LocalStore> local;
};

TEST(VerifiedStore, MappedRangesAreVerifiedWhereTheyLieAndStayMapped) {
  OnDisk disk;
  Verified world(*disk.local);
  env::SimRandom random(3);
  const std::string text = RandomText(random, 10 << 20);
  world.Write({}, {{"f", text}});
  {
    const auto reader = world.Open()->Open("g/f").ValueOrDie();
    const auto bytes = reader->ReadRange(1000, 9 << 20).ValueOrDie();
    EXPECT_TRUE(env::IsMapped(*bytes));
    EXPECT_EQ(bytes->ToString(), text.substr(1000, 9 << 20));
    const auto small = reader->ReadRange(text.size() - 1000, 1000).ValueOrDie();
    EXPECT_EQ(small->ToString(), text.substr(text.size() - 1000));
    EXPECT_FALSE(env::IsMapped(*reader->ReadRange(9 << 20, (1 << 20) - 10).ValueOrDie()))
        << "a small range is memory, also where its blocks were read mapped";
  }
  // In the middle, and at both edges of the range, inside and outside of what was asked for.
  for (const size_t hit : {size_t{5 << 20}, size_t{100}, size_t{1000}, size_t{(9 << 20) + 999},
                           size_t{(9 << 20) + 1000}}) {
    std::string damaged = text;
    damaged[hit] = static_cast<char>(damaged[hit] ^ 1);
    world.Replace("f", damaged);
    const auto reader = world.Open()->Open("g/f").ValueOrDie();
    EXPECT_TRUE(Is(reader->ReadRange(1000, 9 << 20).status(), ErrorKind::kCorrupt)) << hit;
  }
}

TEST(VerifiedStore, ManyThreadsReadOneFile) {
  OnDisk disk;
  Verified world(*disk.local);
  env::SimRandom random(4);
  const std::string text = RandomText(random, 6 << 20);
  std::string damaged = text;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  world.Write({{"f", ChecksumsOf(text)}}, {});
  world.Replace("f", damaged);
  const auto reader = world.Open()->Open("g/f").ValueOrDie();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      env::SimRandom own(thread);
      for (int i = 0; i < 100; ++i) {
        const size_t offset = own.Below(text.size());
        const size_t length = std::min<size_t>(own.Below(2 << 20) + 1, text.size() - offset);
        const auto got = reader->ReadRange(offset, length);
        const bool touches = offset + length > text.size() - kBlock;
        const bool right = touches ? Is(got.status(), ErrorKind::kCorrupt)
                                   : got.ok() && (*got)->ToString() == text.substr(offset, length);
        if (!right) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sarissa::object_store
