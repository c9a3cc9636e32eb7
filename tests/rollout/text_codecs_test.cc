// base64, float32 text, JSON strings and canonical metadata.
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "rollout/base64.h"
#include "rollout/float_text.h"
#include "rollout/json_canonical.h"
#include "rollout/json_escape.h"

namespace sarissa::rollout {
namespace {

Result<std::string> Decode64(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(const size_t size, Base64DecodedSize(text));
  std::string out(size, '?');
  ARROW_RETURN_NOT_OK(DecodeBase64(text, reinterpret_cast<uint8_t*>(out.data())));
  return out;
}

TEST(Base64, DecodesEveryPadding) {
  EXPECT_EQ(Decode64("").ValueOrDie(), "");
  EXPECT_EQ(Decode64("Zg==").ValueOrDie(), "f");
  EXPECT_EQ(Decode64("Zm8=").ValueOrDie(), "fo");
  EXPECT_EQ(Decode64("Zm9v").ValueOrDie(), "foo");
  EXPECT_EQ(Decode64("Zm9vYg==").ValueOrDie(), "foob");
  EXPECT_EQ(Decode64("+/+/").ValueOrDie(), "\xFB\xFF\xBF");
}

TEST(Base64, RefusesEverythingElse) {
  for (const char* text : {"Zg", "Zg=", "Zm9vYg", "Zm9v\n", "Zm 9", "-_-_", "Zh==", "Zm9=", "====",
                           "=", "A===", "Zg==Zg==", "Z===", "Zm=v", "\xC3\xA9\xC3\xA9"}) {
    EXPECT_TRUE(Is(Decode64(text).status(), ErrorKind::kInvalid)) << text;
  }
}

std::string Print(float value) {
  std::string out;
  AppendFloat32(value, out);
  return out;
}

TEST(FloatText, PrintsTheShortestTextThatIsAFloat) {
  EXPECT_EQ(Print(0.1F), "0.1");
  EXPECT_EQ(Print(1.0F), "1.0");
  EXPECT_EQ(Print(-0.0F), "-0.0");
  EXPECT_EQ(Print(0.0F), "0.0");
  EXPECT_EQ(Print(123456789.0F), "123456790.0");
  EXPECT_EQ(Print(1e15F), "1000000000000000.0");
  EXPECT_EQ(Print(1e16F), "1e+16");
  EXPECT_EQ(Print(1e-5F), "0.00001");
  EXPECT_EQ(Print(1.5e-7F), "1.5e-7");
  EXPECT_EQ(Print(12.5F), "12.5");
  EXPECT_EQ(Print(std::numeric_limits<float>::max()), "3.4028235e+38");
  EXPECT_EQ(Print(std::numeric_limits<float>::denorm_min()), "1e-45");
}

TEST(FloatText, PrintsWhatIsNotANumberAsNull) {
  EXPECT_EQ(Print(std::numeric_limits<float>::quiet_NaN()), "null");
  EXPECT_EQ(Print(std::numeric_limits<float>::infinity()), "null");
  EXPECT_EQ(Print(-std::numeric_limits<float>::infinity()), "null");
}

TEST(FloatText, ReadsBackEveryPatternItPrints) {
  constexpr uint32_t kSeed = 12;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int i = 0; i < 200'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    float back = 0;
    ASSERT_TRUE(ParseFloat32(Print(value), back));
    ASSERT_EQ(std::bit_cast<uint32_t>(back), std::bit_cast<uint32_t>(value)) << Print(value);
  }
}

// The reference is the library's exact parser; texts crowd around the middles between floats, where
// rounding twice goes wrong.
TEST(FloatText, TheFastWayRoundsOnceLikeTheExactWay) {
  constexpr uint32_t kSeed = 13;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  int fast = 0;
  for (int i = 0; i < 300'000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    double value = std::bit_cast<float>(bits & 0x7FFFFFFFU);
    if (!std::isfinite(value) || value == 0) continue;
    if (i % 2 == 0) {
      const double next = std::bit_cast<float>((bits & 0x7FFFFFFFU) + 1);
      value = value / 2 + next / 2;
      value = std::bit_cast<double>(std::bit_cast<uint64_t>(value) + random() % 5 - 2);
    }
    if (i % 4 < 2)
      value = std::ldexp(value, -std::ilogb(value) + static_cast<int>(random() % 40) - 20);
    if (!std::isfinite(value)) continue;
    char text[400];
    const auto format = i % 3 == 0 ? std::chars_format::scientific : std::chars_format::general;
    const auto end = i % 5 == 0 ? std::to_chars(text, text + sizeof(text), value, format, 18)
                                : std::to_chars(text, text + sizeof(text), value, format);
    float quick = 0;
    const char* after = ParseFloat32Fast(text, end.ptr, quick);
    if (after == nullptr) continue;
    ++fast;
    float exact = 0;
    std::from_chars(text, end.ptr, exact);
    ASSERT_EQ(after, end.ptr);
    ASSERT_EQ(std::bit_cast<uint32_t>(quick), std::bit_cast<uint32_t>(exact))
        << std::string_view(text, static_cast<size_t>(end.ptr - text));
  }
  EXPECT_GT(fast, 10'000);
}

TEST(FloatText, OverflowIsAnErrorAndUnderflowAZeroOfTheSameSign) {
  float out = 1;
  EXPECT_FALSE(ParseFloat32("1e39", out));
  EXPECT_FALSE(ParseFloat32("-1e400", out));
  // The middle between the largest float and what would be the next
  // is 3.40282356779733661637...e38.
  EXPECT_FALSE(ParseFloat32("3.4028235677973367e38", out));
  EXPECT_TRUE(ParseFloat32("3.4028235677973366e38", out));
  EXPECT_FALSE(ParseFloat32("1e99999999999999999999", out));
  EXPECT_FALSE(ParseFloat32("1" + std::string(60, '0'), out));
  for (const char* text : {"1e-50", "1e-400", "0.0000000001e-60", "1e-99999999999999999999"}) {
    ASSERT_TRUE(ParseFloat32(text, out)) << text;
    EXPECT_EQ(out, 0.0F);
  }
  ASSERT_TRUE(ParseFloat32("-1e-400", out));
  EXPECT_TRUE(std::signbit(out));
  ASSERT_TRUE(ParseFloat32("3.4028234663852886e38", out));
  EXPECT_EQ(out, std::numeric_limits<float>::max());
  ASSERT_TRUE(ParseFloat32("16777217.000000001", out));
  EXPECT_EQ(out, 16777218.0F);
}

TEST(JsonString, EscapesWhatMustBeAndNothingElse) {
  std::string out;
  AppendJsonString(std::string_view("a\"\\/\b\f\n\r\t\0\x01\x1f\x7f\xC3\xA9\xF0\x9F\x98\x80", 19),
                   out);
  EXPECT_EQ(out, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u0001\\u001f\x7f\xC3\xA9\xF0\x9F\x98\x80\"");
}

TEST(JsonString, ReplacesBytesThatAreNotUtf8) {
  std::string out;
  AppendJsonString("a\xFFz\xC3", out);
  EXPECT_EQ(out, "\"a\xEF\xBF\xBDz\xEF\xBF\xBD\"");
}

std::string Canonical(std::string_view text) {
  JsonCursor cursor(text, kMaxJsonDepth);
  std::string out;
  if (!AppendCanonicalJson(cursor, out) || !cursor.AtEnd())
    return std::string("error: ") + cursor.error();
  return out;
}

TEST(CanonicalJson, SortsKeysByBytesAtEveryLevelAndDropsSpace) {
  EXPECT_EQ(
      Canonical(R"( { "b" : 1 , "a" : [ { "z" : 1 , "y" : { } } , [ ] ] , "B":2, "":3, "aa":4 } )"),
      R"({"":3,"B":2,"a":[{"y":{},"z":1},[]],"aa":4,"b":1})");
  EXPECT_EQ(Canonical("{\"\\ud83d\\ude00\":1,\"\xEF\xBF\xBF\":2}"),
            "{\"\xEF\xBF\xBF\":2,\"\xF0\x9F\x98\x80\":1}");
}

TEST(CanonicalJson, KeepsTheExactTextOfNumbers) {
  const std::string numbers =
      "[1.0,1e5,1E+5,18446744073709551615,123456789012345678901234567890,-0.0,-0,0.10]";
  EXPECT_EQ(Canonical(numbers), numbers);
}

TEST(CanonicalJson, KeepsTheLastOfEqualKeys) {
  EXPECT_EQ(Canonical(R"({"a":1,"b":2,"\u0061":3})"), R"({"a":3,"b":2})");
}

TEST(CanonicalJson, KeepsNulsAndFourByteCharacters) {
  EXPECT_EQ(Canonical(R"("\u0000\ud83d\ude00\/")"), "\"\\u0000\xF0\x9F\x98\x80/\"");
}

TEST(CanonicalJson, RefusesWhatIsNotJson) {
  for (const char* text : {"NaN",
                           "Infinity",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "[01]",
                           "[+1]",
                           "[.5]",
                           "[1.]",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\u12g4\"",
                           "[1}",
                           "tru",
                           "'a'",
                           "",
                           "[1 2]",
                           "{\"a\" 1}",
                           "[-]",
                           "1e",
                           "\"a",
                           "nul"}) {
    EXPECT_TRUE(Canonical(text).starts_with("error: ")) << text << " -> " << Canonical(text);
  }
}

}  // namespace
}  // namespace sarissa::rollout
