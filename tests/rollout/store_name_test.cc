#include "rollout/store_name.h"

#include <gtest/gtest.h>

#include <string>

namespace sarissa::rollout {
namespace {

TEST(StoreName, AcceptsTheWholeAlphabetUpTo128Bytes) {
  for (const std::string name : {"a", "_", "9lives", "Exp-1.2_x", "a..b", "_registry2"}) {
    EXPECT_TRUE(CheckStoreName(name).ok()) << name;
  }
  EXPECT_TRUE(CheckStoreName(std::string(128, 'x')).ok());
}

TEST(StoreName, RefusesEmptyAndTooLong) {
  EXPECT_TRUE(Is(CheckStoreName(""), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(CheckStoreName(std::string(129, 'x')), ErrorKind::kInvalid));
}

TEST(StoreName, RefusesEverythingThatCouldLeaveTheDataDirectory) {
  for (const std::string_view name :
       {std::string_view("../esc"), std::string_view(".."), std::string_view(".hidden"),
        std::string_view("-x"), std::string_view("a/b"), std::string_view("a\\b"),
        std::string_view("c:d"), std::string_view("a b"), std::string_view("a\0b", 3),
        std::string_view("\xC3\xA9"), std::string_view("a\n")}) {
    EXPECT_TRUE(Is(CheckStoreName(name), ErrorKind::kInvalid)) << name;
  }
}

TEST(StoreName, RefusesReservedNames) {
  EXPECT_TRUE(Is(CheckStoreName("_registry"), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(CheckStoreName("_stats"), ErrorKind::kInvalid));
}

}  // namespace
}  // namespace sarissa::rollout
