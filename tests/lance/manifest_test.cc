#include "lance/table/manifest.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/lance/table_world.h"

namespace sarissa::lance {
namespace {

using object_store::PutMode;

std::span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string Serialized(uint64_t version) {
  LoadedManifest manifest;
  manifest.manifest.set_version(version);
  manifest.transaction.emplace().set_uuid("u");
  return *SerializeManifest(std::move(manifest));
}

void Put(object_store::ObjectStore& store, const std::string& name, const std::string& bytes) {
  ASSERT_TRUE(store.Put("t/_versions/" + name, AsBytes(bytes), PutMode::kOverwrite).ok());
}

TEST(Manifest, NamesSortNewestFirst) {
  EXPECT_EQ(ManifestName(TableVersion(1)), "18446744073709551614.manifest");
  EXPECT_GT(ManifestName(TableVersion(9)), ManifestName(TableVersion(10)));
  EXPECT_EQ(ManifestName(TableVersion(12), ManifestNaming::kV1), "12.manifest");
}

TEST(Manifest, RoundTripKeepsSectionsAndUnknownFields) {
  LoadedManifest manifest;
  manifest.manifest.set_version(3);
  (*manifest.manifest.mutable_config())["k"] = "v";
  manifest.manifest.GetReflection()->MutableUnknownFields(&manifest.manifest)->AddVarint(999, 7);
  manifest.indices.add_indices()->set_name("i");
  manifest.transaction.emplace().set_uuid("some uuid");
  ASSERT_VALUE(const std::string bytes, SerializeManifest(manifest));
  ASSERT_VALUE(const LoadedManifest read, ParseManifest("m", *arrow::Buffer::FromString(bytes)));
  EXPECT_EQ(read.manifest.version(), 3u);
  EXPECT_EQ(read.manifest.config().at("k"), "v");
  EXPECT_EQ(read.manifest.GetReflection()->GetUnknownFields(read.manifest).field_count(), 1);
  EXPECT_EQ(read.indices.indices(0).name(), "i");
  EXPECT_EQ(read.transaction->uuid(), "some uuid");
  EXPECT_EQ(read.manifest.transaction_section(), read.manifest.transaction_section_old());
}

TEST(Manifest, UnknownFeatureFlagsAreNamed) {
  LoadedManifest manifest;
  manifest.manifest.set_version(1);
  manifest.manifest.set_reader_feature_flags(1 | 64 | 1024);
  ASSERT_VALUE(const std::string bytes, SerializeManifest(manifest));
  const auto read = ParseManifest("m", *arrow::Buffer::FromString(bytes));
  ASSERT_KIND(ErrorKind::kUnsupported, read);
  EXPECT_NE(read.status().message().find("64, 1024"), std::string::npos) << read.status().message();
}

TEST(Manifest, EveryCutOrFlippedByteIsAnErrorOrAManifest) {
  const std::string whole = Serialized(5);
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto buffer = arrow::Buffer::FromString(whole.substr(0, length));
    EXPECT_FALSE(ParseManifest("m", *buffer).ok()) << length;
    EXPECT_TRUE(IsTornManifest(*buffer)) << length;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const auto read = ParseManifest("m", *arrow::Buffer::FromString(damaged));
      if (!read.ok()) {
        EXPECT_NE(KindOf(read.status()), ErrorKind::kInternal);
      }
    }
  }
  EXPECT_FALSE(IsTornManifest(*arrow::Buffer::FromString(whole)));
}

TEST(Manifest, NewestIsFoundAmongForeignFilesAndGaps) {
  test::TableWorld world;
  for (const uint64_t version : {1, 2, 7})
    Put(world.store(), ManifestName(TableVersion(version)), Serialized(version));
  for (const char* name : {"18446744073709551600.manifest.tmp", "18446744073709551600.manifest#1",
                           "a", "0.txt", "latest_version_hint.json", "18446744073709551600"}) {
    Put(world.store(), name, "x");
  }
  ASSERT_VALUE(const TableVersion newest, FindNewestVersion(world.store(), "t"));
  EXPECT_EQ(newest, TableVersion(7));
  ASSERT_VALUE(const LoadedManifest second, ReadManifest(world.store(), "t", TableVersion(2)));
  EXPECT_EQ(second.manifest.version(), 2u);
  ASSERT_KIND(ErrorKind::kNotFound, ReadManifest(world.store(), "t", TableVersion(3)));
  ASSERT_KIND(ErrorKind::kNotFound, FindNewestVersion(world.store(), "other"));
}

TEST(Manifest, ManyForeignFilesDoNotHideTheNewest) {
  test::TableWorld world;
  for (int i = 0; i < 40; ++i) Put(world.store(), "18446744." + std::to_string(100 + i), "x");
  Put(world.store(), ManifestName(TableVersion(3)), Serialized(3));
  ASSERT_VALUE(const TableVersion newest, FindNewestVersion(world.store(), "t"));
  EXPECT_EQ(newest, TableVersion(3));
}

TEST(Manifest, OldNamingIsReadByNumber) {
  test::TableWorld world;
  for (const uint64_t version : {1, 2, 10, 9})
    Put(world.store(), fmt::format("{}.manifest", version), Serialized(version));
  ASSERT_VALUE(const TableTip tip, FindTip(world.store(), "t"));
  EXPECT_EQ(tip.newest.version, TableVersion(10));
  EXPECT_EQ(tip.newest.naming, ManifestNaming::kV1);
}

TEST(Manifest, TornNewestIsSkippedAndItsNameStaysTaken) {
  test::TableWorld world;
  Put(world.store(), ManifestName(TableVersion(4)), Serialized(4));
  Put(world.store(), ManifestName(TableVersion(5)), Serialized(5).substr(0, 9));
  Put(world.store(), ManifestName(TableVersion(6)), "");
  Put(world.store(), ManifestName(TableVersion(7)), std::string(100, '\0'));
  ASSERT_VALUE(const TableTip tip, FindTip(world.store(), "t"));
  EXPECT_EQ(tip.newest.version, TableVersion(4));
  EXPECT_EQ(tip.taken, TableVersion(7));
}

TEST(Manifest, DamagedNewestIsAnErrorAndNotSkipped) {
  test::TableWorld world;
  Put(world.store(), ManifestName(TableVersion(4)), Serialized(4));
  std::string damaged = Serialized(5);
  damaged[damaged.size() - 1] = 'X';
  Put(world.store(), ManifestName(TableVersion(5)), damaged);
  ASSERT_KIND(ErrorKind::kCorrupt, FindNewestVersion(world.store(), "t"));
}

TEST(Manifest, VersionMustMatchTheName) {
  test::TableWorld world;
  Put(world.store(), ManifestName(TableVersion(4)), Serialized(3));
  ASSERT_KIND(ErrorKind::kCorrupt, FindNewestVersion(world.store(), "t"));
}

}  // namespace
}  // namespace sarissa::lance
