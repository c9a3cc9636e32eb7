#include <gtest/gtest.h>

#include <string_view>

#include "base/checksum.h"
#include "base/error.h"
#include "base/strong_type.h"
#include "base/uuid.h"

namespace sarissa {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Error, KindSurvivesAnnotation) {
  const Status status = Error(ErrorKind::kFenced, "epoch {}", 7);
  EXPECT_EQ(KindOf(status), ErrorKind::kFenced);
  const Status annotated = Annotate(status, "shard x");
  EXPECT_EQ(KindOf(annotated), ErrorKind::kFenced);
  EXPECT_EQ(annotated.message(), "shard x: epoch 7");
}

TEST(Error, StatusesThatArrowMakesGetAKind) {
  EXPECT_EQ(KindOf(Status::Invalid("x")), ErrorKind::kInvalid);
  EXPECT_EQ(KindOf(Status::IOError("x")), ErrorKind::kIo);
  EXPECT_EQ(KindOf(Status::NotImplemented("x")), ErrorKind::kUnsupported);
}

TEST(Uuid, ShardIdOfTheDefaultInstanceIsTheOriginals) {
  EXPECT_EQ(Uuid::FromName("default").ToString(), "02e81b29-f150-54b9-9a08-ce75944f6889");
}

TEST(Uuid, ParsesWhatItPrints) {
  const Uuid uuid = Uuid::FromRandom(0x0123456789abcdef, 0xfedcba9876543210);
  ASSERT_TRUE(Uuid::Parse(uuid.ToString()).ok());
  EXPECT_EQ(*Uuid::Parse(uuid.ToString()), uuid);
  EXPECT_FALSE(Uuid::Parse("02e81b29f15054b99a08ce75944f6889").ok());
  EXPECT_FALSE(Uuid::Parse("02e81b29-f150-54b9-9a08-ce75944f688g").ok());
}

TEST(Crc32c, MatchesTheStandardVectors) {
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c(Bytes("")), 0u);
  const uint8_t zeros[32] = {};
  EXPECT_EQ(Crc32c(zeros), 0x8A9136AAu);
}

TEST(Crc32c, ExtendsAcrossPieces) {
  EXPECT_EQ(Crc32c(Bytes("56789"), Crc32c(Bytes("1234"))), Crc32c(Bytes("123456789")));
}

TEST(StrongType, OrdersAndAdvances) {
  EXPECT_LT(Epoch(1), Epoch(1).Next());
  EXPECT_EQ(fmt::format("{}", Generation(3)), "3");
}

}  // namespace
}  // namespace sarissa
