#include "lance/table/deletion_vector.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "lance/table/roaring_format.h"
#include "tests/lance/table_world.h"

namespace sarissa::lance {
namespace {

using pb::table::DeletionFile;

std::span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string FromHex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

TEST(Roaring, TheFormatsOwnExample) {
  const std::string expected = FromHex("3a30000001000000000001001000000000000100");
  EXPECT_EQ(SerializeRoaring(std::vector<uint32_t>{0, 1}), expected);
  ASSERT_VALUE(const auto values, ParseRoaring(AsBytes(expected), 10));
  EXPECT_EQ(values, (std::vector<uint32_t>{0, 1}));
}

TEST(Roaring, RunContainersAreRead) {
  // One container, key 0, cardinality 4: runs {5, 6} and {9, 10}; below four containers there is no
  // offset table.
  const std::string bytes = FromHex(
      "3b300000"
      "01"
      "00000300"
      "0200"
      "05000100"
      "09000100");
  ASSERT_VALUE(const auto values, ParseRoaring(AsBytes(bytes), 10));
  EXPECT_EQ(values, (std::vector<uint32_t>{5, 6, 9, 10}));
}

TEST(Roaring, RandomSetsRoundTripAndDamageIsRefused) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    std::set<uint32_t> values;
    const uint32_t spread = round % 2 == 0 ? 20'000 : 400'000;
    for (uint32_t i = 0; i < 9000; ++i) values.insert(static_cast<uint32_t>(random() % spread));
    const std::vector<uint32_t> sorted(values.begin(), values.end());
    std::string bytes = SerializeRoaring(sorted);
    ASSERT_VALUE(const auto read, ParseRoaring(AsBytes(bytes), sorted.size()));
    ASSERT_EQ(read, sorted);
    EXPECT_FALSE(ParseRoaring(AsBytes(bytes), sorted.size() - 1).ok());
    for (size_t length = 0; length < bytes.size(); length += 1 + random() % 400) {
      EXPECT_FALSE(ParseRoaring(AsBytes(bytes.substr(0, length)), sorted.size()).ok());
    }
    for (int i = 0; i < 200; ++i) {
      std::string damaged = bytes;
      damaged[random() % 40] = static_cast<char>(random());
      const auto result = ParseRoaring(AsBytes(damaged), sorted.size());
      if (result.ok()) {
        EXPECT_LE(result->size(), sorted.size());
      }
    }
  }
}

TEST(DeletionVector, SortsAndUnites) {
  const DeletionVector vector({5, 3, 5, 1});
  EXPECT_EQ(vector.size(), 3u);
  EXPECT_TRUE(vector.Contains(3));
  EXPECT_FALSE(vector.Contains(2));
  const auto range = vector.Range(2, 5);
  EXPECT_EQ(std::vector<uint32_t>(range.begin(), range.end()), std::vector<uint32_t>{3});
  const std::vector<uint32_t> more = {9, 3};
  EXPECT_EQ(vector.Union(more).size(), 4u);
}

TEST(DeletionVector, BothFormsRoundTrip) {
  test::TableWorld world;
  for (const uint32_t count : {1U, 4999U, 5000U, 70'000U}) {
    std::vector<uint32_t> offsets;
    for (uint32_t i = 0; i < count; ++i) offsets.push_back(2 * i + 1);
    const DeletionVector vector(offsets);
    pb::table::DataFragment fragment;
    fragment.set_id(3);
    ASSERT_VALUE(*fragment.mutable_deletion_file(),
                 WriteDeletionVector(world.store(), world.random(), "t", 3, 8, vector,
                                     DeletionFileTypeFor(count)));
    EXPECT_EQ(fragment.deletion_file().file_type(),
              count < 5000 ? DeletionFile::ARROW : DeletionFile::BITMAP);
    ASSERT_VALUE(const auto read, ReadDeletionVector(world.store(), "t", fragment, 200'000));
    EXPECT_TRUE(
        std::equal(read->offsets().begin(), read->offsets().end(), offsets.begin(), offsets.end()));
    ASSERT_KIND(ErrorKind::kCorrupt,
                ReadDeletionVector(world.store(), "t", fragment, 2 * count - 1));
    fragment.mutable_deletion_file()->set_num_deleted_rows(count + 1);
    ASSERT_KIND(ErrorKind::kCorrupt, ReadDeletionVector(world.store(), "t", fragment, 200'000));
  }
}

TEST(DeletionVector, UnorderedArrowFilesAreRead) {
  test::TableWorld world;
  arrow::UInt32Builder builder;
  ASSERT_TRUE(builder.AppendValues({3, 99, 5}).ok());
  const auto schema = arrow::schema({arrow::field("row_id", arrow::uint32(), false)});
  ASSERT_VALUE(const auto sink, arrow::io::BufferOutputStream::Create());
  ASSERT_VALUE(const auto writer, arrow::ipc::MakeFileWriter(sink, schema));
  ASSERT_TRUE(
      writer->WriteRecordBatch(*arrow::RecordBatch::Make(schema, 3, {*builder.Finish()})).ok());
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_VALUE(const auto bytes, sink->Finish());
  ASSERT_TRUE(world.store()
                  .Put("t/_deletions/1-2-3.arrow",
                       {bytes->data(), static_cast<size_t>(bytes->size())},
                       object_store::PutMode::kIfAbsent)
                  .ok());
  pb::table::DataFragment fragment;
  fragment.set_id(1);
  fragment.mutable_deletion_file()->set_read_version(2);
  fragment.mutable_deletion_file()->set_id(3);
  fragment.mutable_deletion_file()->set_num_deleted_rows(3);
  ASSERT_VALUE(const auto read, ReadDeletionVector(world.store(), "t", fragment, 100));
  EXPECT_TRUE(read->Contains(99) && read->Contains(3) && read->Contains(5));

  std::string damaged = bytes->ToString();
  for (size_t i = 0; i < damaged.size(); ++i) {
    std::string copy = damaged;
    copy[i] = static_cast<char>(copy[i] ^ 0x55);
    ASSERT_TRUE(
        world.store()
            .Put("t/_deletions/1-2-3.arrow", AsBytes(copy), object_store::PutMode::kOverwrite)
            .ok());
    const auto result = ReadDeletionVector(world.store(), "t", fragment, 100);
    if (!result.ok()) {
      EXPECT_EQ(KindOf(result.status()), ErrorKind::kCorrupt) << result.status().ToString();
    }
  }
}

TEST(DeletionVector, MissingFileIsNamed) {
  test::TableWorld world;
  pb::table::DataFragment fragment;
  fragment.mutable_deletion_file()->set_read_version(1);
  const auto read = ReadDeletionVector(world.store(), "t", fragment, 10);
  ASSERT_KIND(ErrorKind::kNotFound, read);
  EXPECT_NE(read.status().message().find("t/_deletions/0-1-0.arrow"), std::string::npos);
}

}  // namespace
}  // namespace sarissa::lance
