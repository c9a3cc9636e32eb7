// What both file systems promise: the machine's (with and without nameless files) and the simulated
// one.
#include "env/file_system.h"

#include <arrow/buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "env/mapped_range.h"
#include "env/posix/posix_file_system.h"
#include "env/sim/sim_file_system.h"
#include "tests/env/scratch_directory.h"

namespace sarissa::env {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

struct Side {
  virtual ~Side() = default;
  virtual FileSystem& fs() = 0;
  virtual std::string root() = 0;
};

struct PosixSide : Side {
  explicit PosixSide(PosixFileSystem::Options options) : file_system(options) {}
  FileSystem& fs() override { return file_system; }
  std::string root() override { return scratch.path(); }
  test::ScratchDirectory scratch;
  PosixFileSystem file_system;
};

struct SimSide : Side {
  FileSystem& fs() override { return file_system; }
  std::string root() override { return "/data"; }
  SimSide() { SARISSA_CHECK(file_system.CreateDirectory("/data").ok()); }
  SimDisk disk;
  SimFileSystem file_system{disk};
};

class FileSystemContract : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "sim") side_ = std::make_unique<SimSide>();
    if (GetParam() == "posix") side_ = std::make_unique<PosixSide>(PosixFileSystem::Options{});
    if (GetParam() == "posix_named") {
      side_ = std::make_unique<PosixSide>(
          PosixFileSystem::Options{.sync_mode = SyncMode::kNone, .unnamed_files = false});
    }
  }
  FileSystem& fs() { return side_->fs(); }
  std::string Path(const std::string& name) { return side_->root() + "/" + name; }
  void Write(const std::string& name, std::string_view text) {
    const auto file = fs().CreateUnnamed(side_->root()).ValueOrDie();
    ASSERT_TRUE(file->Append(Bytes(text)).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->LinkAs(Path(name)).ok());
  }
  std::string Read(const std::string& name) {
    const auto file = fs().OpenRead(Path(name)).ValueOrDie();
    return file->ReadAt(0, file->size()).ValueOrDie()->ToString();
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const FileInfo& info : fs().List(side_->root()).ValueOrDie()) names.push_back(info.name);
    std::sort(names.begin(), names.end());
    return names;
  }

  std::unique_ptr<Side> side_;
};

TEST_P(FileSystemContract, FileHasNoNameUntilItIsLinked) {
  {
    const auto file = fs().CreateUnnamed(side_->root()).ValueOrDie();
    ASSERT_TRUE(file->Append(Bytes("lost")).ok());
    EXPECT_EQ(file->size(), 4u);
    EXPECT_TRUE(Is(fs().Stat(Path("a")).status(), ErrorKind::kNotFound));
  }
  EXPECT_TRUE(Names().empty());
  Write("a", "kept");
  EXPECT_EQ(Read("a"), "kept");
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
}

TEST_P(FileSystemContract, LinkMeetsAnExistingName) {
  Write("a", "first");
  const auto file = fs().CreateUnnamed(side_->root()).ValueOrDie();
  ASSERT_TRUE(file->Append(Bytes("second")).ok());
  const Status status = file->LinkAs(Path("a"));
  EXPECT_TRUE(Is(status, ErrorKind::kAlreadyExists)) << status.ToString();
  EXPECT_NE(status.message().find(Path("a")), std::string::npos);
  EXPECT_EQ(Read("a"), "first");
}

TEST_P(FileSystemContract, RangesAreExact) {
  Write("a", "0123456789");
  const auto file = fs().OpenRead(Path("a")).ValueOrDie();
  EXPECT_EQ(file->size(), 10u);
  EXPECT_EQ(file->ReadAt(3, 4).ValueOrDie()->ToString(), "3456");
  EXPECT_EQ(file->Map(3, 7).ValueOrDie()->ToString(), "3456789");
  EXPECT_EQ(file->ReadAt(10, 0).ValueOrDie()->size(), 0);
  EXPECT_EQ(file->Map(10, 0).ValueOrDie()->size(), 0);
  EXPECT_TRUE(Is(file->ReadAt(3, 8).status(), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(file->ReadAt(UINT64_MAX, 2).status(), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(file->Map(11, UINT64_MAX - 5).status(), ErrorKind::kInvalid));
}

TEST_P(FileSystemContract, UnlinkedFileCanBeReadBack) {
  const auto file = fs().CreateUnnamed(side_->root()).ValueOrDie();
  ASSERT_TRUE(file->Append(Bytes("spooled")).ok());
  const auto reader = file->OpenForRead().ValueOrDie();
  EXPECT_EQ(reader->ReadAt(0, 7).ValueOrDie()->ToString(), "spooled");
}

TEST_P(FileSystemContract, MappingOutlivesItsFile) {
  Write("a", std::string(100'000, 'x') + "tail");
  std::shared_ptr<arrow::Buffer> mapped;
  {
    const auto file = fs().OpenRead(Path("a")).ValueOrDie();
    mapped = file->Map(5'001, 95'003).ValueOrDie();
  }
  ASSERT_TRUE(fs().RemoveFile(Path("a")).ok());
  const auto slice = arrow::SliceBuffer(arrow::SliceBuffer(mapped, 10), 5);
  ReleaseMappedPages(*slice, 0, slice->size());
  ReleaseMappedPages(*mapped, 0, mapped->size());
  ReleaseMappedPages(*mapped, 20'000, INT64_MAX);
  EXPECT_EQ(mapped->ToString(), std::string(94'999, 'x') + "tail");
  EXPECT_EQ(IsMapped(*slice), GetParam() != "sim");
}

TEST_P(FileSystemContract, RenameReplaces) {
  Write("a", "new");
  Write("b", "old");
  ASSERT_TRUE(fs().Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(Names(), std::vector<std::string>{"b"});
  EXPECT_EQ(Read("b"), "new");
  EXPECT_TRUE(Is(fs().Rename(Path("a"), Path("c")), ErrorKind::kNotFound));
}

TEST_P(FileSystemContract, DirectoriesAreMadeOneByOneAndRemovedEmpty) {
  EXPECT_TRUE(Is(fs().CreateDirectory(Path("x/y")), ErrorKind::kNotFound));
  ASSERT_TRUE(fs().CreateDirectory(Path("x")).ok());
  EXPECT_TRUE(Is(fs().CreateDirectory(Path("x")), ErrorKind::kAlreadyExists));
  ASSERT_TRUE(fs().CreateDirectory(Path("x/y")).ok());
  EXPECT_TRUE(fs().SyncDirectory(Path("x")).ok());
  EXPECT_TRUE(Is(fs().RemoveDirectory(Path("x")), ErrorKind::kIo));
  EXPECT_TRUE(fs().Stat(Path("x/y")).ValueOrDie().is_directory);
  ASSERT_TRUE(fs().RemoveDirectory(Path("x/y")).ok());
  ASSERT_TRUE(fs().RemoveDirectory(Path("x")).ok());
  EXPECT_TRUE(Is(fs().RemoveDirectory(Path("x")), ErrorKind::kNotFound));
  EXPECT_TRUE(Is(fs().List(Path("x")).status(), ErrorKind::kNotFound));
}

TEST_P(FileSystemContract, MissingThingsAreNotFound) {
  EXPECT_TRUE(Is(fs().OpenRead(Path("a")).status(), ErrorKind::kNotFound));
  EXPECT_TRUE(Is(fs().OpenRead(side_->root()).status(), ErrorKind::kNotFound));
  EXPECT_TRUE(Is(fs().CreateUnnamed(Path("x")).status(), ErrorKind::kNotFound));
  EXPECT_TRUE(Is(fs().RemoveFile(Path("a")), ErrorKind::kNotFound));
  Write("a", "");
  EXPECT_TRUE(Is(fs().OpenRead(Path("a/b")).status(), ErrorKind::kNotFound));
}

TEST_P(FileSystemContract, LockIsExclusiveUntilReleased) {
  std::shared_ptr<void> lock = fs().LockFile(Path("lock")).ValueOrDie();
  EXPECT_TRUE(Is(fs().LockFile(Path("lock")).status(), ErrorKind::kAlreadyExists));
  lock.reset();
  EXPECT_TRUE(fs().LockFile(Path("lock")).ok());
}

INSTANTIATE_TEST_SUITE_P(Sides, FileSystemContract, testing::Values("posix", "posix_named", "sim"),
                         [](const auto& param) { return param.param; });

TEST(PosixFileSystem, LinksAndSpecialFilesAreNotListed) {
  const test::ScratchDirectory scratch;
  PosixFileSystem fs;
  ASSERT_TRUE(fs.CreateDirectory(scratch / "d").ok());
  std::filesystem::create_symlink("/etc", scratch / "link");
  const auto entries = fs.List(scratch.path()).ValueOrDie();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].name, "d");
}

TEST(PosixFileSystem, ReleasedPagesAreStillReadable) {
  const test::ScratchDirectory scratch;
  PosixFileSystem fs({.sync_mode = SyncMode::kNone, .unnamed_files = true});
  const auto file = fs.CreateUnnamed(scratch.path()).ValueOrDie();
  std::string content;
  for (int i = 0; i < 3'000'000; ++i) content.push_back(static_cast<char>('a' + i % 23));
  ASSERT_TRUE(file->Append(Bytes(content)).ok());
  const auto reader = file->OpenForRead().ValueOrDie();
  const auto mapped = reader->Map(1, content.size() - 1).ValueOrDie();
  EXPECT_EQ(mapped->ToString(), content.substr(1));
  ReleaseMappedPages(*mapped, 100, 2'000'000);
  EXPECT_EQ(mapped->ToString(), content.substr(1));
}

}  // namespace
}  // namespace sarissa::env
