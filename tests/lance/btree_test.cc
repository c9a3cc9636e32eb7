#include "lance/index/btree.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/scalar.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "lance/file/file_reader.h"
#include "tests/lance/table_world.h"

namespace sarissa::lance {
namespace {

using Ids = std::vector<uint64_t>;

template <typename Builder, typename Value>
std::shared_ptr<arrow::Array> Filled(Builder& builder,
                                     const std::vector<std::optional<Value>>& values) {
  for (const auto& value : values)
    EXPECT_TRUE((value ? builder.Append(*value) : builder.AppendNull()).ok());
  return *builder.Finish();
}

template <typename Builder, typename Value>
std::shared_ptr<arrow::Array> ArrayOf(const std::vector<std::optional<Value>>& values) {
  Builder builder(arrow::default_memory_pool());
  return Filled<Builder, Value>(builder, values);
}

TEST(BTree, SortsByValueThenIdWithNullsFirst) {
  test::TableWorld world;
  const auto values = ArrayOf<arrow::StringBuilder, std::string>(
      {"b", std::nullopt, "a", "b", std::nullopt, "ab", ""});
  ASSERT_VALUE(const BTreeFiles files, WriteBTree(world.store(), "i", values, {5, 9, 2, 1, 3, 4, 7},
                                                  {.version = kFileV21, .batch_size = 3}));
  ASSERT_VALUE(const auto data_info, world.store().Head("i/page_data.lance"));
  EXPECT_EQ(files.page_data_bytes, data_info.size);
  ASSERT_VALUE(const auto object, world.store().Open("i/page_data.lance"));
  ASSERT_VALUE(const auto reader, FileReader::Open(object));
  ASSERT_VALUE(const auto columns, reader->AllColumns());
  ASSERT_VALUE(const auto rows, reader->Read(columns, 0, reader->num_rows()));
  EXPECT_EQ(rows->column(1)->ToString(),
            (ArrayOf<arrow::UInt64Builder, uint64_t>({3, 9, 7, 2, 4, 1, 5}))->ToString());
  ASSERT_VALUE(const auto lookup_object, world.store().Open("i/page_lookup.lance"));
  ASSERT_VALUE(const auto lookup, FileReader::Open(lookup_object));
  EXPECT_EQ(lookup->num_rows(), 3u);
  EXPECT_EQ(lookup->schema_metadata().at("batch_size"), "3");
  EXPECT_EQ(lookup->schema_metadata().at("range_partitioned"), "false");
  ASSERT_VALUE(const auto lookup_columns, lookup->AllColumns());
  ASSERT_VALUE(const auto pages, lookup->Read(lookup_columns, 0, 3));
  EXPECT_TRUE(pages->column(0)->IsNull(0));
  EXPECT_EQ((*pages->column(1)->GetScalar(2))->ToString(), "b");
}

TEST(BTree, FindsValuesNullsAndNothing) {
  test::TableWorld world;
  const auto values = ArrayOf<arrow::StringBuilder, std::string>(
      {"b", std::nullopt, "a", "b", std::nullopt, "ab", ""});
  ASSERT_TRUE(WriteBTree(world.store(), "i", values, {5, 9, 2, 1, 3, 4, 7},
                         {.version = kFileV21, .batch_size = 2})
                  .ok());
  ASSERT_VALUE(const auto tree, BTreeReader::Open(world.store(), "i"));
  EXPECT_EQ(tree->num_rows(), 7u);
  EXPECT_EQ(*tree->Find(arrow::StringScalar("b")), (Ids{1, 5}));
  EXPECT_EQ(*tree->Find(arrow::StringScalar("")), (Ids{7}));
  EXPECT_EQ(*tree->Find(arrow::StringScalar("aa")), (Ids{}));
  EXPECT_EQ(*tree->Find(*arrow::MakeNullScalar(arrow::utf8())), (Ids{3, 9}));
  ASSERT_KIND(ErrorKind::kInvalid, tree->Find(arrow::Int64Scalar(1)));
}

TEST(BTree, EmptyIndexFindsNothing) {
  test::TableWorld world;
  ASSERT_TRUE(
      WriteBTree(world.store(), "i", ArrayOf<arrow::StringBuilder, std::string>({}), {}, {}).ok());
  ASSERT_VALUE(const auto tree, BTreeReader::Open(world.store(), "i"));
  EXPECT_EQ(*tree->Find(arrow::StringScalar("b")), (Ids{}));
}

TEST(BTree, FloatsHaveNanLastAndOneZero) {
  test::TableWorld world;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto values =
      ArrayOf<arrow::DoubleBuilder, double>({nan, 0.0, -inf, -0.0, inf, -1.5, -nan, 1.5});
  ASSERT_TRUE(WriteBTree(world.store(), "i", values, {0, 1, 2, 3, 4, 5, 6, 7},
                         {.version = kFileV22, .batch_size = 2})
                  .ok());
  ASSERT_VALUE(const auto tree, BTreeReader::Open(world.store(), "i"));
  EXPECT_EQ(*tree->Find(arrow::DoubleScalar(nan)), (Ids{0, 6}));
  EXPECT_EQ(*tree->Find(arrow::DoubleScalar(0.0)), (Ids{1, 3}));
  EXPECT_EQ(*tree->Find(arrow::DoubleScalar(-inf)), (Ids{2}));
  EXPECT_EQ(*tree->Find(arrow::DoubleScalar(1.5)), (Ids{7}));
}

TEST(BTree, ScalarTypesOfKeysAreFound) {
  test::TableWorld world;
  const auto timestamp = arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
  arrow::TimestampBuilder timestamps(timestamp, arrow::default_memory_pool());
  const std::vector<std::pair<std::shared_ptr<arrow::Array>, std::shared_ptr<arrow::Scalar>>>
      cases = {
          {ArrayOf<arrow::Int32Builder, int32_t>({3, -5, 3}),
           std::make_shared<arrow::Int32Scalar>(3)},
          {ArrayOf<arrow::UInt64Builder, uint64_t>({~0ULL, 1, ~0ULL}),
           std::make_shared<arrow::UInt64Scalar>(~0ULL)},
          {ArrayOf<arrow::Int8Builder, int8_t>({-1, 1, -1}),
           std::make_shared<arrow::Int8Scalar>(int8_t{-1})},
          {ArrayOf<arrow::BooleanBuilder, bool>({true, false, true}),
           std::make_shared<arrow::BooleanScalar>(true)},
          {ArrayOf<arrow::LargeStringBuilder, std::string>({"x", "y", "x"}),
           std::make_shared<arrow::LargeStringScalar>("x")},
          {ArrayOf<arrow::BinaryBuilder, std::string>({"x", std::string("x\0", 2), "x"}),
           std::make_shared<arrow::BinaryScalar>(arrow::Buffer::FromString("x"))},
          {Filled<arrow::TimestampBuilder, int64_t>(timestamps, {7, -7, 7}),
           std::make_shared<arrow::TimestampScalar>(7, timestamp)},
      };
  int number = 0;
  for (const auto& [values, wanted] : cases) {
    SCOPED_TRACE(values->type()->ToString());
    const std::string name = fmt::format("i{}", number++);
    ASSERT_TRUE(WriteBTree(world.store(), name, values, {10, 11, 12}, {}).ok());
    ASSERT_VALUE(const auto tree, BTreeReader::Open(world.store(), name));
    ASSERT_VALUE(const auto found, tree->Find(*wanted));
    EXPECT_EQ(found, (Ids{10, 12}));
  }
  ASSERT_KIND(ErrorKind::kUnsupported,
              WriteBTree(world.store(), "no",
                         *arrow::MakeArrayOfNull(arrow::list(arrow::int8()), 1), {1}, {}));
}

TEST(BTree, RandomStringsAgreeWithAMap) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  test::TableWorld world;
  std::multimap<std::string, uint64_t> model;
  arrow::StringBuilder builder;
  Ids ids;
  for (uint64_t i = 0; i < 20'000; ++i) {
    std::string value;
    for (uint32_t length = static_cast<uint32_t>(random() % 12); length > 0; --length) {
      value.push_back(static_cast<char>("ab\x01z"[random() % 4]));
    }
    ASSERT_TRUE(builder.Append(value).ok());
    ids.push_back(i * 3);
    model.emplace(value, i * 3);
  }
  ASSERT_TRUE(WriteBTree(world.store(), "i", *builder.Finish(), ids,
                         {.version = kFileV21, .batch_size = 512})
                  .ok());
  ASSERT_VALUE(const auto tree, BTreeReader::Open(world.store(), "i"));
  for (auto it = model.begin(); it != model.end();) {
    const auto end = model.upper_bound(it->first);
    if (random() % 10 == 0) {
      Ids expected;
      for (auto at = it; at != end; ++at) expected.push_back(at->second);
      ASSERT_VALUE(const auto found, tree->Find(arrow::StringScalar(it->first)));
      ASSERT_EQ(found, expected);
    }
    it = end;
  }
}

}  // namespace
}  // namespace sarissa::lance
