#include "server/error_envelope.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/json_body.h"

namespace sarissa::server {
namespace {

TEST(ErrorEnvelope, EveryKindHasItsStatusAndCode) {
  struct Case {
    ErrorKind kind;
    int status;
    std::string code;
    bool retry_after = false;
  };
  const std::vector<Case> cases = {
      {ErrorKind::kInvalid, 400, "INVALID_REQUEST"},
      {ErrorKind::kNotFound, 404, "NOT_FOUND"},
      {ErrorKind::kAlreadyExists, 409, "ALREADY_EXISTS"},
      {ErrorKind::kConflict, 500, "INTERNAL"},
      {ErrorKind::kFenced, 503, "FENCED"},
      {ErrorKind::kFailedWriter, 503, "WRITER_FAILED"},
      {ErrorKind::kOverloaded, 503, "OVERLOADED", true},
      {ErrorKind::kOutcomeUnknown, 500, "OUTCOME_UNKNOWN"},
      {ErrorKind::kUnavailable, 500, "INTERNAL"},
      {ErrorKind::kCorrupt, 500, "INTERNAL"},
      {ErrorKind::kUnsupported, 500, "INTERNAL"},
      {ErrorKind::kDeadline, 503, "TIMEOUT"},
      {ErrorKind::kCancelled, 503, "DRAINING"},
      {ErrorKind::kNoSpace, 507, "NO_SPACE"},
      {ErrorKind::kIo, 500, "INTERNAL"},
      {ErrorKind::kInternal, 500, "INTERNAL"},
  };
  for (const Case& c : cases) {
    const Response response = ErrorResponse(Error(c.kind, "say \"why\""));
    EXPECT_EQ(response.status, c.status) << ErrorKindName(c.kind);
    EXPECT_EQ(response.content_type, "application/json");
    EXPECT_EQ(response.body, R"({"error":{"code":")" + c.code + R"(","message":"say \"why\""}})");
    EXPECT_EQ(response.headers.empty(), !c.retry_after) << ErrorKindName(c.kind);
  }
}

TEST(ErrorEnvelope, FailedFlushSaysThatTheRowsAreDurable) {
  const Response response =
      DurableNotFlushedResponse(Error(ErrorKind::kFenced, "epoch 3 owns the shard"));
  EXPECT_EQ(response.status, 503);
  EXPECT_NE(response.body.find("DURABLE_NOT_FLUSHED"), std::string::npos);
  EXPECT_NE(response.body.find("epoch 3 owns the shard"), std::string::npos);
  EXPECT_TRUE(response.headers.empty());
}

TEST(JsonBody, CreateTakesUnknownFieldsAndNamesWhatIsWrong) {
  EXPECT_EQ(ParseCreateStore(R"({"name":"a","storage_options":null,"more":[1]})")->name, "a");
  EXPECT_EQ(ParseCreateStore(R"({"storage_options":{"k":"v"},"name":"a"})")->problem, "");
  EXPECT_EQ(ParseCreateStore("{}")->problem, "name: missing");
  EXPECT_EQ(ParseCreateStore("[]")->problem, "the body is not a JSON object");
  EXPECT_EQ(ParseCreateStore(R"({"name":1})")->problem, "name: expected a string");
  EXPECT_EQ(ParseCreateStore(R"({"name":"a","name":"b"})")->problem, "name: given more than once");
  EXPECT_EQ(ParseCreateStore(R"({"name":"a","storage_options":{"k":1}})")->problem,
            "storage_options.k: expected a string");
  for (const char* bad : {"", "{", "{\"name\":\"a\"} x", "{'name':1}", "{\"name\":\"\xff\"}"}) {
    EXPECT_TRUE(Is(ParseCreateStore(bad).status(), ErrorKind::kInvalid)) << bad;
  }
}

TEST(JsonBody, CheckoutTakesAVersionOrNull) {
  EXPECT_EQ(ParseCheckout(R"({"version":7})")->version, 7U);
  EXPECT_EQ(ParseCheckout(R"({"version":null})")->version, std::nullopt);
  EXPECT_EQ(ParseCheckout(R"({"version":null})")->problem, "");
  for (const char* bad : {"{}", R"({"version":-1})", R"({"version":1.0})", R"({"version":"1"})"}) {
    EXPECT_FALSE(ParseCheckout(bad)->problem.empty()) << bad;
  }
}

TEST(JsonBody, MediaTypesAreComparedWithoutCaseAndParameters) {
  EXPECT_TRUE(IsJsonContentType("Application/JSON; charset=utf-8"));
  EXPECT_TRUE(IsJsonContentType("application/problem+json"));
  EXPECT_FALSE(IsJsonContentType("text/json"));
  EXPECT_FALSE(IsJsonContentType(""));
}

}  // namespace
}  // namespace sarissa::server
