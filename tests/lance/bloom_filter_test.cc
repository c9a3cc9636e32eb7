#include "lance/index/bloom_filter.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/checksum.h"
#include "tests/lance/table_world.h"

namespace sarissa::lance {
namespace {

template <typename Builder, typename Value>
std::shared_ptr<arrow::Array> One(Value value) {
  Builder builder;
  EXPECT_TRUE(builder.Append(value).ok());
  return *builder.Finish();
}

uint64_t HashOf(std::vector<std::shared_ptr<arrow::Array>> columns) {
  return *KeyHash(columns, 0);
}

TEST(BloomFilter, KeyHashesAreTheFormats) {
  EXPECT_EQ(HashOf({One<arrow::Int64Builder>(1)}), 0x7467d6524c084857u);
  EXPECT_EQ(HashOf({One<arrow::Int64Builder>(-1)}), 0xfde5e622403f1d9fu);
  EXPECT_EQ(HashOf({One<arrow::Int32Builder>(7)}), 0x173136168bf50efbu);
  EXPECT_EQ(HashOf({One<arrow::StringBuilder>("ab")}), 0x35165c62ac91ec9fu);
  EXPECT_EQ(HashOf({One<arrow::BinaryBuilder>("ab")}), 0xd8708461dbf4859bu);
  EXPECT_EQ(HashOf({One<arrow::Int32Builder>(1), One<arrow::StringBuilder>("x")}),
            0x47d9182163d484b3u);
  EXPECT_EQ(HashOf({*arrow::MakeArrayOfNull(arrow::utf8(), 1)}), 0x44bc103b1f8540edu);
}

TEST(BloomFilter, TypesThatCannotBeKeysAreRefused) {
  std::vector<std::shared_ptr<arrow::Array>> columns = {*arrow::MakeEmptyArray(arrow::float64())};
  columns[0] = One<arrow::DoubleBuilder>(1.0);
  ASSERT_KIND(ErrorKind::kUnsupported, KeyHash(columns, 0));
}

TEST(BloomFilter, SipHashOfPiecesAndWholeAgree) {
  // Reference vectors of SipHash-1-3 under a zero key come from the key hashes above; here only
  // lengths around a word.
  std::vector<uint8_t> data;
  std::set<uint64_t> seen;
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(seen.insert(SipHash13(data)).second);
    data.push_back(0);
  }
}

// 500 keys "key-0" ... in 1,024 blocks: the bytes are those of a filter that pylance wrote.
TEST(BloomFilter, BytesAreTheOriginals) {
  ASSERT_VALUE(auto filter,
               BloomFilter::FromBytes(arrow::Buffer::FromString(std::string(32768, '\0'))));
  for (int i = 0; i < 500; ++i)
    filter.Add(HashOf({One<arrow::StringBuilder>("key-" + std::to_string(i))}));
  EXPECT_EQ(Crc32c(filter.bytes()), 0x9c002632u);
}

TEST(BloomFilter, HasNoFalseNegativesAndFewFalsePositives) {
  for (const uint64_t keys : {1u, 100u, 8192u, 100'000u}) {
    BloomFilter filter = BloomFilter::ForKeys(keys);
    EXPECT_EQ(filter.bytes().size() & (filter.bytes().size() - 1), 0u);
    const auto hash = [](uint64_t i) {
      return SipHash13({reinterpret_cast<const uint8_t*>(&i), sizeof(i)});
    };
    for (uint64_t i = 0; i < keys; ++i) filter.Add(hash(i));
    for (uint64_t i = 0; i < keys; ++i) ASSERT_TRUE(filter.MayContain(hash(i)));
    int false_positives = 0;
    for (uint64_t i = 0; i < 100'000; ++i)
      false_positives += filter.MayContain(hash((1u << 30) + i)) ? 1 : 0;
    EXPECT_LT(false_positives, 300) << keys;
  }
}

TEST(BloomFilter, SizesThatAreNoBlocksAreCorrupt) {
  for (const size_t size : {0u, 1u, 31u, 33u}) {
    ASSERT_KIND(ErrorKind::kCorrupt,
                BloomFilter::FromBytes(arrow::Buffer::FromString(std::string(size, '\0'))));
  }
}

}  // namespace
}  // namespace sarissa::lance
