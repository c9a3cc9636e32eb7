#include <gtest/gtest.h>

#include "server/query.h"
#include "server/router.h"
#include "server/routes.h"
#include "server/target.h"

namespace sarissa::server {
namespace {

using Segments = std::vector<std::string>;

TEST(Target, IsSplitBeforeItIsDecodedAndNothingIsMerged) {
  const std::vector<std::pair<std::string, Segments>> cases = {
      {"/", {""}},
      {"/a/b", {"a", "b"}},
      {"/a//b/", {"a", "", "b", ""}},
      {"/a/../b", {"a", "..", "b"}},
      {"/a%2Fb/c", {"a/b", "c"}},
      {"/%2e%2E/c", {"..", "c"}},
      {"/a%2525", {"a%25"}},
      {"/caf%C3%A9", {"caf\xc3\xa9"}},
      {"/a+b", {"a+b"}},
      {"http://host:1/a/b", {"a", "b"}},
      {"http://host", {""}},
      {"/a?x=/b", {"a"}},
  };
  for (const auto& [text, segments] : cases) {
    const Result<Target> target = ParseTarget(text);
    ASSERT_TRUE(target.ok()) << text << ": " << target.status();
    EXPECT_EQ(target->segments, segments) << text;
  }
  EXPECT_EQ(ParseTarget("/a?x=1&y=%41")->query, "x=1&y=%41");
}

TEST(Target, RefusesBadPercentSequencesAndOtherForms) {
  for (const char* text : {"", "*", "a/b", "/a%", "/a%4", "/a%4g", "/%ff", "/%C3", "/%ED%A0%80"}) {
    EXPECT_TRUE(Is(ParseTarget(text).status(), ErrorKind::kInvalid)) << text;
  }
}

TEST(Router, MatchesMethodPathAndParameters) {
  std::vector<RoutePattern> patterns;
  for (const Route& route : Routes()) patterns.push_back({route.method, route.path});
  const Router router(patterns);
  const auto path_of = [&](Method method, const std::string& path) -> std::string {
    const RouteMatch match = router.Match(method, ParseTarget(path)->segments);
    if (match.route.has_value()) return std::string(patterns[*match.route].path);
    return match.allow.empty() ? "404" : "405 " + match.allow;
  };
  EXPECT_EQ(path_of(Method::kGet, "/api/v1/health"), "/api/v1/health");
  EXPECT_EQ(path_of(Method::kHead, "/api/v1/health"), "/api/v1/health");
  EXPECT_EQ(path_of(Method::kPost, "/api/v1/health"), "405 GET, HEAD");
  EXPECT_EQ(path_of(Method::kOther, "/api/v1/rollouts"), "405 POST, GET, HEAD");
  EXPECT_EQ(path_of(Method::kGet, "/api/v1/rollouts/"), "404");
  EXPECT_EQ(path_of(Method::kGet, "/api/v1/rollouts//records"), "404");
  EXPECT_EQ(path_of(Method::kGet, "/api/v1/rollouts/a/records/"), "404");
  EXPECT_EQ(path_of(Method::kGet, "/api/v1/rollouts/a/records/x/blob"),
            "/api/v1/rollouts/{name}/records/{id}/blob");
  EXPECT_EQ(path_of(Method::kDelete, "/api/v1/rollouts/a"), "/api/v1/rollouts/{name}");
  EXPECT_EQ(path_of(Method::kGet, "/"), "404");
  const RouteMatch match =
      router.Match(Method::kGet, ParseTarget("/api/v1/rollouts/a/records/x%2Fy")->segments);
  EXPECT_EQ(match.params, (Segments{"a", "x/y"}));
}

TEST(Query, FlushIsReadRaw) {
  for (const char* yes :
       {"flush", "flush=1", "flush=true", "flush=TRUE", "a=b&flush", "flush=0&flush=1"}) {
    EXPECT_TRUE(WantsFlush(yes)) << yes;
  }
  for (const char* no :
       {"", "flush=", "flush=0", "flush=yes", "Flush", "fl%75sh", "flush=%31", "xflush=1"}) {
    EXPECT_FALSE(WantsFlush(no)) << no;
  }
}

TEST(Query, ListParametersAreFormDecoded) {
  const Result<ListQuery> query =
      ParseListQuery("limit=10&offset=3&filters=%7B%22a%22:+%22b%2Bc%22%7D&unknown=%zz");
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->limit, 10U);
  EXPECT_EQ(query->offset, 3U);
  EXPECT_EQ(query->filters, R"({"a": "b+c"})");
  EXPECT_EQ(ParseListQuery("limit=18446744073709551615")->limit, UINT64_MAX);
}

TEST(Query, BadCountsAndRepeatsAreRefused) {
  for (const char* bad :
       {"limit=", "limit=-1", "limit=+1", "limit=1.5", "limit=x", "limit=18446744073709551616",
        "limit=1&limit=1", "offset=1&offset=2", "offset=-0", "filters={}&filters={}", "limit"}) {
    EXPECT_TRUE(Is(ParseListQuery(bad).status(), ErrorKind::kInvalid)) << bad;
  }
}

}  // namespace
}  // namespace sarissa::server
