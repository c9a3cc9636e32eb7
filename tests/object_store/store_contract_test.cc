// What every object store promises, run over all of them.
#include <arrow/buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "env/posix/posix_file_system.h"
#include "env/posix/posix_random.h"
#include "env/sim/sim_file_system.h"
#include "env/sim/sim_random.h"
#include "object_store/checksum_recorder.h"
#include "object_store/fault_store.h"
#include "object_store/local_store.h"
#include "object_store/memory_store.h"
#include "object_store/metered_store.h"
#include "object_store/verified_store.h"
#include "tests/env/scratch_directory.h"

namespace sarissa::object_store {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct Side {
  virtual ~Side() = default;
  virtual ObjectStore& store() = 0;
};

struct PosixSide : Side {
  explicit PosixSide(bool unnamed_files)
      : file_system({.sync_mode = env::SyncMode::kNone, .unnamed_files = unnamed_files}) {
    local = LocalStore::Open(file_system, random, scratch / "root/").ValueOrDie();
  }
  ObjectStore& store() override { return *local; }
  test::ScratchDirectory scratch;
  env::PosixFileSystem file_system;
  env::PosixRandom random;
  std::unique_ptr<LocalStore> local;
};

struct SimSide : Side {
  SimSide() { local = LocalStore::Open(file_system, random, "/data/root").ValueOrDie(); }
  ObjectStore& store() override { return *local; }
  env::SimDisk disk;
  env::SimFileSystem file_system{disk};
  env::SimRandom random{1};
  std::unique_ptr<LocalStore> local;
};

struct MemorySide : Side {
  ObjectStore& store() override { return memory; }
  MemoryStore memory;
};

// Decorators must not change what a store promises.
struct DecoratedSide : Side {
  ObjectStore& store() override { return verified; }
  MemoryStore memory;
  FaultStore faulty{memory};
  MeteredStore metered{faulty, env::NullMetrics()};
  ChecksumRecorder recorder{metered, "a/"};
  VerifiedStore verified{recorder, "a/", {}, env::NullMetrics()};
};

class StoreContract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "local") side_ = std::make_unique<PosixSide>(true);
    if (GetParam() == "local_named") side_ = std::make_unique<PosixSide>(false);
    if (GetParam() == "sim") side_ = std::make_unique<SimSide>();
    if (GetParam() == "memory") side_ = std::make_unique<MemorySide>();
    if (GetParam() == "decorated") side_ = std::make_unique<DecoratedSide>();
  }
  ObjectStore& store() { return side_->store(); }
  void Put(const std::string& name, std::string_view text) {
    ASSERT_TRUE(store().Put(name, Bytes(text), PutMode::kIfAbsent).ok()) << name;
  }
  std::string Get(const std::string& name) {
    const auto got = store().Get(name);
    return got.ok() ? (*got)->ToString() : std::string(ErrorKindName(KindOf(got.status())));
  }
  // Objects and folders in one ascending list.
  std::string List(const std::string& prefix, const ListOptions& options) {
    const Listing listing = store().List(prefix, options).ValueOrDie();
    std::vector<std::string> names = listing.folders;
    for (const ObjectInfo& object : listing.objects) names.push_back(object.name);
    EXPECT_TRUE(std::is_sorted(listing.folders.begin(), listing.folders.end()));
    EXPECT_TRUE(
        std::is_sorted(listing.objects.begin(), listing.objects.end(),
                       [](const auto& left, const auto& right) { return left.name < right.name; }));
    std::sort(names.begin(), names.end());
    std::string joined;
    for (const std::string& name : names) joined += name + " ";
    return joined;
  }

  std::unique_ptr<Side> side_;
};

TEST_P(StoreContract, PutIfAbsentKeepsTheFirst) {
  Put("a/b/c", "first");
  const Status second = store().Put("a/b/c", Bytes("second"), PutMode::kIfAbsent);
  EXPECT_TRUE(Is(second, ErrorKind::kAlreadyExists)) << second.ToString();
  EXPECT_EQ(Get("a/b/c"), "first");
}

TEST_P(StoreContract, OverwriteReplaces) {
  ASSERT_TRUE(store().Put("a", Bytes("first"), PutMode::kOverwrite).ok());
  const auto old = store().Open("a").ValueOrDie();
  ASSERT_TRUE(store().Put("a", Bytes("the second"), PutMode::kOverwrite).ok());
  EXPECT_EQ(Get("a"), "the second");
  EXPECT_EQ(old->ReadRange(0, 5).ValueOrDie()->ToString(), "first");
  EXPECT_EQ(List("", {}), "a ");
}

TEST_P(StoreContract, NothingIsVisibleBeforeFinish) {
  {
    const auto writer = store().Create("d/a").ValueOrDie();
    ASSERT_TRUE(writer->Append(Bytes("some")).ok());
    ASSERT_TRUE(writer->AppendBuffer(*arrow::Buffer::FromString("thing")).ok());
    EXPECT_EQ(writer->size(), 9u);
    EXPECT_EQ(Get("d/a"), "not_found");
    EXPECT_EQ(List("", {.start_after = "", .limit = 0, .recursive = true}), "");
  }
  EXPECT_EQ(Get("d/a"), "not_found");
  EXPECT_EQ(List("", {}), "");
}

TEST_P(StoreContract, WriterIsFinishedOnce) {
  const auto writer = store().Create("a").ValueOrDie();
  ASSERT_TRUE(writer->Finish(PutMode::kIfAbsent).ok());
  EXPECT_TRUE(Is(writer->Finish(PutMode::kOverwrite), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(writer->Append(Bytes("x")), ErrorKind::kInvalid));
  EXPECT_EQ(store().Head("a")->size, 0u);
}

TEST_P(StoreContract, RangesAreExact) {
  const std::string big(3'000'000, 'z');
  Put("a", "0123456789" + big + "!");
  const auto reader = store().Open("a").ValueOrDie();
  EXPECT_EQ(reader->name(), "a");
  EXPECT_EQ(reader->size(), big.size() + 11);
  EXPECT_EQ(reader->ReadRange(4, 3).ValueOrDie()->ToString(), "456");
  EXPECT_EQ(reader->ReadRange(10, big.size() + 1).ValueOrDie()->ToString(), big + "!");
  EXPECT_EQ(reader->ReadRange(big.size() + 11, 0).ValueOrDie()->size(), 0);
  EXPECT_TRUE(Is(reader->ReadRange(big.size() + 11, 1).status(), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(reader->ReadRange(UINT64_MAX, UINT64_MAX).status(), ErrorKind::kInvalid));
  EXPECT_EQ(store().GetRange("a", 8, 2).ValueOrDie()->ToString(), "89");
}

TEST_P(StoreContract, BufferReadFromOneObjectIsAppendedToAnother) {
  const std::string big(9'000'000, 'q');
  Put("a", big);
  const auto range = store().GetRange("a", 1, big.size() - 1).ValueOrDie();
  const auto writer = store().Create("b").ValueOrDie();
  ASSERT_TRUE(writer->AppendBuffer(*range).ok());
  ASSERT_TRUE(writer->Finish(PutMode::kIfAbsent).ok());
  EXPECT_EQ(Get("b"), big.substr(1));
}

TEST_P(StoreContract, ReaderSurvivesTheDeletionOfItsName) {
  Put("a", "still here");
  const auto reader = store().Open("a").ValueOrDie();
  ASSERT_TRUE(store().Delete("a").ok());
  EXPECT_EQ(reader->ReadRange(0, 10).ValueOrDie()->ToString(), "still here");
  EXPECT_EQ(Get("a"), "not_found");
  EXPECT_TRUE(store().Delete("a").ok());
  EXPECT_TRUE(store().Delete("no/such/folder").ok());
}

TEST_P(StoreContract, BadNamesAreInvalid) {
  for (const std::string name : {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/."}) {
    EXPECT_TRUE(Is(store().Create(name).status(), ErrorKind::kInvalid)) << name;
    EXPECT_TRUE(Is(store().Open(name).status(), ErrorKind::kInvalid)) << name;
    EXPECT_TRUE(Is(store().Head(name).status(), ErrorKind::kInvalid)) << name;
    EXPECT_TRUE(Is(store().Delete(name), ErrorKind::kInvalid)) << name;
  }
  EXPECT_TRUE(Is(CheckName(std::string_view("a\0b", 3)), ErrorKind::kInvalid));
  for (const std::string prefix : {"a", "/", "../", "a//"}) {
    EXPECT_TRUE(Is(store().List(prefix, {}).status(), ErrorKind::kInvalid)) << prefix;
    EXPECT_TRUE(Is(store().DeletePrefix(prefix), ErrorKind::kInvalid)) << prefix;
  }
  EXPECT_TRUE(Is(store().DeletePrefix(""), ErrorKind::kInvalid));
}

TEST_P(StoreContract, ListingStopsAtTheNextSlash) {
  for (const std::string name : {"a/1", "a/2", "a/b/3", "a-b/4", "a0", "b", "c/d/e/5"})
    Put(name, name);
  EXPECT_EQ(List("", {}), "a-b/ a/ a0 b c/ ");
  EXPECT_EQ(List("a/", {}), "a/1 a/2 a/b/ ");
  EXPECT_EQ(List("c/", {}), "c/d/ ");
  EXPECT_EQ(List("nothing/", {}), "");
  EXPECT_EQ(store().List("a/", {}).ValueOrDie().objects[0].size, 3u);
}

TEST_P(StoreContract, RecursiveListingHoldsEverything) {
  for (const std::string name : {"a/1", "a/2", "a/b/3", "a-b/4", "a0", "b", "c/d/e/5"})
    Put(name, name);
  EXPECT_EQ(List("", {.start_after = "", .limit = 0, .recursive = true}),
            "a-b/4 a/1 a/2 a/b/3 a0 b c/d/e/5 ");
  EXPECT_EQ(List("a/", {.start_after = "", .limit = 0, .recursive = true}), "a/1 a/2 a/b/3 ");
}

TEST_P(StoreContract, ListingPagesByNameAndLimit) {
  for (const std::string name : {"a/1", "a/2", "a/b/3", "a-b/4", "a0", "b", "c/d/e/5"})
    Put(name, name);
  EXPECT_EQ(List("", {.start_after = "", .limit = 2, .recursive = true}), "a-b/4 a/1 ");
  EXPECT_EQ(List("", {.start_after = "a/1", .limit = 2, .recursive = true}), "a/2 a/b/3 ");
  EXPECT_EQ(List("", {.start_after = "a/b/3", .limit = 0, .recursive = true}), "a0 b c/d/e/5 ");
  EXPECT_EQ(List("", {.start_after = "a/", .limit = 1, .recursive = true}), "a/1 ");
  EXPECT_EQ(List("", {.start_after = "zzz", .limit = 0, .recursive = true}), "");
  EXPECT_EQ(List("", {.start_after = "", .limit = 2, .recursive = false}), "a-b/ a/ ");
  EXPECT_EQ(List("", {.start_after = "a/", .limit = 2, .recursive = false}), "a0 b ");
  EXPECT_EQ(List("", {.start_after = "a/1", .limit = 0, .recursive = false}), "a0 b c/ ");
  EXPECT_EQ(List("", {.start_after = "a", .limit = 1, .recursive = false}), "a-b/ ");
  EXPECT_EQ(List("a/", {.start_after = "a/1", .limit = 1, .recursive = false}), "a/2 ");
  EXPECT_EQ(List("a/", {.start_after = "a", .limit = 0, .recursive = false}), "a/1 a/2 a/b/ ");
}

TEST_P(StoreContract, PagesTogetherAreTheWholeListing) {
  env::SimRandom random(11);
  for (int i = 0; i < 60; ++i) {
    const std::string name =
        fmt::format("{}/{}/o{}", random.Below(3), random.Below(4), random.Below(100));
    ASSERT_TRUE(store().Put(name, {}, PutMode::kOverwrite).ok());
  }
  for (const bool recursive : {false, true}) {
    const std::string all = List("1/", {.start_after = "", .limit = 0, .recursive = recursive});
    std::string paged;
    std::string after;
    for (;;) {
      const ListOptions options{.start_after = after, .limit = 3, .recursive = recursive};
      paged += List("1/", options);
      const Listing page = store().List("1/", options).ValueOrDie();
      if (page.objects.size() + page.folders.size() < 3) break;
      if (!page.objects.empty()) after = page.objects.back().name;
      if (!page.folders.empty()) after = std::max(after, page.folders.back());
    }
    EXPECT_EQ(paged, all);
  }
}

TEST_P(StoreContract, FolderWithoutObjectsIsNotListed) {
  Put("a/b/c", "x");
  EXPECT_EQ(List("", {}), "a/ ");
  ASSERT_TRUE(store().Delete("a/b/c").ok());
  EXPECT_EQ(List("", {}), "");
  EXPECT_EQ(List("a/", {}), "");
}

TEST_P(StoreContract, DeletePrefixDeletesAllBelowAndNothingElse) {
  for (const std::string name : {"a/1", "a/b/2", "a/b/c/3", "ab", "a-/4"}) Put(name, name);
  ASSERT_TRUE(store().DeletePrefix("a/").ok());
  EXPECT_EQ(List("", {.start_after = "", .limit = 0, .recursive = true}), "a-/4 ab ");
  EXPECT_TRUE(store().DeletePrefix("a/").ok());
  EXPECT_TRUE(store().DeletePrefix("x/y/z/").ok());
  Put("a/b/2", "again");
  EXPECT_EQ(Get("a/b/2"), "again");
}

TEST_P(StoreContract, FolderIsNotAnObject) {
  Put("a/b", "x");
  EXPECT_EQ(Get("a"), "not_found");
  EXPECT_TRUE(Is(store().Head("a").status(), ErrorKind::kNotFound));
  EXPECT_TRUE(store().Delete("a").ok());
  EXPECT_EQ(Get("a/b"), "x");
  EXPECT_TRUE(Is(store().Open("a/b/c").status(), ErrorKind::kNotFound));
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreContract,
                         testing::Values("local", "local_named", "sim", "memory", "decorated"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace sarissa::object_store
