#include "rollout/timestamp.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace sarissa::rollout {
namespace {

std::string Print(int64_t micros) {
  std::string out;
  AppendTimestamp(micros, out);
  return out;
}

int64_t Parse(std::string_view text) {
  const auto micros = ParseTimestamp(text);
  EXPECT_TRUE(micros.ok()) << text << ": " << micros.status().message();
  return micros.ValueOr(-1);
}

TEST(Timestamp, TakesAnyZoneAndEitherSeparator) {
  EXPECT_EQ(Parse("2024-01-01T00:00:00Z"), 1704067200000000);
  EXPECT_EQ(Parse("2024-01-01t00:00:00z"), 1704067200000000);
  EXPECT_EQ(Parse("2024-01-01 00:00:00.1234567+05:30"), 1704047400123456);
  EXPECT_EQ(Parse("2024-01-01T00:00:00+0530"), 1704047400000000);
  EXPECT_EQ(Parse("2024-01-01T00:00:00-00:00"), 1704067200000000);
  EXPECT_EQ(Parse("2024-01-01T00:00:00+23:59"), 1703980860000000);
}

TEST(Timestamp, CutsDigitsBeyondMicrosecondsTowardsThePast) {
  EXPECT_EQ(Parse("2024-01-01T00:00:00.9999999Z"), 1704067200999999);
  EXPECT_EQ(Parse("1969-12-31T23:59:59.9999999Z"), -1);
  EXPECT_EQ(Parse("2024-01-01T00:00:00.123456789012345678901Z"), 1704067200123456);
}

TEST(Timestamp, CountsALeapSecondAsTheNextSecond) {
  EXPECT_EQ(Parse("2016-12-31T23:59:60Z"), 1483228800000000);
  EXPECT_EQ(Parse("2024-01-01T00:00:60.5Z"), 1704067260500000);
}

TEST(Timestamp, HoldsYearsOutsideFourDigitsWithASign) {
  EXPECT_EQ(Parse("0000-01-01T00:00:00Z"), -62167219200000000);
  EXPECT_EQ(Parse("-0001-01-01T00:00:00Z"), -62198755200000000);
  EXPECT_EQ(Parse("+12024-01-01T00:00:00Z"), 317273587200000000);
  EXPECT_EQ(Parse("9999-12-31T23:59:59.999999999Z"), 253402300799999999);
  EXPECT_EQ(Print(253402387139000000), "+10000-01-01T23:58:59Z");
  EXPECT_EQ(Print(-62167305540000000), "-0001-12-31T00:01:00Z");
}

TEST(Timestamp, RefusesWhatIsNotRfc3339) {
  for (const char* text : {"",
                           "2024-01-01T00:00:00",
                           "2024-01-01T00:00Z",
                           "2024-02-30T00:00:00Z",
                           "2023-02-29T00:00:00Z",
                           "2024-01-01T24:00:00Z",
                           "2024-01-01T00:60:00Z",
                           "2024-01-01T00:00:61Z",
                           "2024-01-01T00:00:00.Z",
                           "2024-01-01T00:00:00+24:00",
                           "2024-01-01T00:00:00+05:60",
                           "2024-01-01T00:00:00+05",
                           "2024-01-01",
                           "2024-01-01_00:00:00Z",
                           "2024-01-01T00:00:00,5Z",
                           "2024-13-01T00:00:00Z",
                           "2024-00-01T00:00:00Z",
                           "2024-01-01T00:00:00Zx",
                           "1704067200",
                           "+999999-01-01T00:00:00Z"}) {
    EXPECT_TRUE(Is(ParseTimestamp(text).status(), ErrorKind::kInvalid)) << text;
  }
}

TEST(Timestamp, PrintsZeroThreeOrSixFractionDigits) {
  EXPECT_EQ(Print(1704067200000000), "2024-01-01T00:00:00Z");
  EXPECT_EQ(Print(1704067260500000), "2024-01-01T00:01:00.500Z");
  EXPECT_EQ(Print(1704067200123456), "2024-01-01T00:00:00.123456Z");
  EXPECT_EQ(Print(-1), "1969-12-31T23:59:59.999999Z");
}

TEST(Timestamp, ReadsBackWhatItPrints) {
  constexpr uint32_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const int64_t micros = std::uniform_int_distribution<int64_t>(
        -8'000'000'000'000'000'000, 8'000'000'000'000'000'000)(random);
    ASSERT_EQ(Parse(Print(micros)), micros) << Print(micros);
  }
}

TEST(Timestamp, PrintsEvenTheExtremes) {
  EXPECT_TRUE(Print(INT64_MIN).starts_with("-"));
  EXPECT_TRUE(Print(INT64_MAX).starts_with("+"));
}

}  // namespace
}  // namespace sarissa::rollout
