// The routes, over sockets, on a fake engine.
#include <string>

#include "tests/server/live_server.h"

namespace sarissa::server {
namespace {

std::string Record(const std::string& id, const std::string& more = "") {
  return R"({"id":")" + id + R"(","rollout_id":"r")" + more + "}";
}

std::string Records(const std::string& records) {
  return R"({"records":[)" + records + "]}";
}

std::string Part(const std::string& name, const std::string& content) {
  return "--B\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + content + "\r\n";
}

constexpr char kMultipart[] = "multipart/form-data; boundary=B";

TEST_F(LiveServer, StoreLifeCycle) {
  Start();
  EXPECT_EQ(Call(Get("/api/v1/health")).body, R"({"status":"ok"})");
  ExpectEnvelope(Call(Get("/api/v1/rollouts/exp")), 404, "NOT_FOUND");
  const RawResponse made =
      Call(Post("/api/v1/rollouts", R"({"name":"exp","storage_options":null})"));
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.body, R"({"name":"exp","uri":"./data/exp.rollout.lance","version":2})");
  ExpectEnvelope(Call(Post("/api/v1/rollouts", R"({"name":"exp"})")), 409, "ALREADY_EXISTS");
  EXPECT_EQ(Call(Get("/api/v1/rollouts/exp")).body, made.body);
  EXPECT_EQ(Call(Get("/api/v1/rollouts")).body,
            R"({"stores":[{"name":"exp","uri":"./data/exp.rollout.lance"}]})");
  const RawResponse gone = Call("DELETE /api/v1/rollouts/exp HTTP/1.1\r\nhost: test\r\n\r\n");
  EXPECT_EQ(gone.status, 204);
  EXPECT_FALSE(gone.headers.contains("content-length"));
  ExpectEnvelope(Call("DELETE /api/v1/rollouts/exp HTTP/1.1\r\nhost: test\r\n\r\n"), 404,
                 "NOT_FOUND");
}

TEST_F(LiveServer, NamesAreCheckedBeforeStoresAreLookedUp) {
  StartWithStore();
  for (const char* name : {"..", "a%2Fb", ".x", "a%20b", "_registry", "_stats"}) {
    const std::string path = std::string("/api/v1/rollouts/") + name;
    ExpectEnvelope(Call(Get(path)), 400, "INVALID_REQUEST");
    ExpectEnvelope(Call(Get(path + "/records")), 400, "INVALID_REQUEST");
    ExpectEnvelope(Call(Post(path + "/records", Records(Record("1")))), 400, "INVALID_REQUEST");
  }
  ExpectEnvelope(Call(Get("/api/v1/rollouts/none/records?limit=x")), 400, "INVALID_REQUEST");
  ExpectEnvelope(Call(Get("/api/v1/rollouts/none/records?filters=%5B")), 400, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post("/api/v1/rollouts/none/records", "{")), 400, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post("/api/v1/rollouts/none/records", Records(Record("1")))), 404,
                 "NOT_FOUND");
}

TEST_F(LiveServer, AppendedRowsAreListedFilteredAndFetched) {
  StartWithStore();
  const RawResponse added = Call(Post(
      kRecords, Records(Record("a") + "," + Record("b", R"(,"role":"tool","content":"x\u00e9")") +
                        "," + Record("a"))));
  EXPECT_EQ(added.status, 201);
  EXPECT_EQ(added.body, R"({"version":2,"ids":["a","b","a"],"count":3})");
  const RawResponse all = Call(Get(kRecords));
  EXPECT_EQ(all.status, 200);
  EXPECT_TRUE(all.body.starts_with(R"({"records":[{"id":"a","rollout_id":"r",)")) << all.body;
  EXPECT_TRUE(all.whole);
  EXPECT_TRUE(Call(Get(std::string(kRecords) + "?limit=1&offset=1"))
                  .body.starts_with(R"({"records":[{"id":"b")"));
  EXPECT_EQ(Call(Get(std::string(kRecords) + "?limit=0")).body, R"({"records":[]})");
  EXPECT_TRUE(Call(Get(std::string(kRecords) + "?filters=%7B%22role%22:%22tool%22%7D"))
                  .body.starts_with(R"({"records":[{"id":"b")"));
  ExpectEnvelope(Call(Get(std::string(kRecords) + "?filters=%7B%22x%22:1%7D")), 400,
                 "INVALID_REQUEST");
  EXPECT_TRUE(Call(Get(std::string(kRecords) + "/b")).body.starts_with(R"({"record":{"id":"b")"));
  EXPECT_EQ(Call(Get(std::string(kRecords) + "/zzz")).body, R"({"record":null})");
  ExpectEnvelope(Call(Get(std::string(kRecords) + "/b/blob")), 404, "NOT_FOUND");
}

TEST_F(LiveServer, LongListsAreChunkedAndComeWhole) {
  StartWithStore();
  const std::string content(100'000, 'c');
  std::string records;
  for (int i = 0; i < 20; ++i) {
    if (i > 0) records += ',';
    records += Record(std::to_string(i), R"(,"content":")" + content + "\"");
  }
  ASSERT_EQ(Call(Post(kRecords, Records(records))).status, 201);
  RawClient client = Connect();
  const RawResponse list = client.Call(Get(kRecords));
  EXPECT_EQ(list.Header("transfer-encoding"), "chunked");
  EXPECT_TRUE(list.whole);
  EXPECT_GT(list.body.size(), 2'000'000U);
  EXPECT_TRUE(list.body.ends_with("}]}"));
  EXPECT_EQ(client.Call(Get("/livez")).status, 200);
}

TEST_F(LiveServer, ErrorInTheMiddleOfAListBreaksTheBodyOff) {
  StartWithStore();
  const std::string content(200'000, 'c');
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(
        Call(Post(kRecords, Records(Record(std::to_string(i), R"(,"content":")" + content + "\""))))
            .status,
        201);
  }
  catalog_.table("exp").FailScanAt(6, Error(ErrorKind::kCorrupt, "page 3 is damaged"));
  const RawResponse broken = Call(Get(kRecords));
  EXPECT_EQ(broken.status, 200);
  EXPECT_FALSE(broken.whole);
  catalog_.table("exp").FailScanAt(0, Error(ErrorKind::kCorrupt, "page 1 is damaged"));
  ExpectEnvelope(Call(Get(kRecords)), 500, "INTERNAL");
}

TEST_F(LiveServer, MultipartPayloadsComeBackAsBlobs) {
  StartWithStore();
  std::string large(3 << 20, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 7 + i / 256);
  const std::string body = Part("metadata", Records(Record("small") + "," + Record("large") + "," +
                                                    Record("empty") + "," + Record("none"))) +
                           Part("1", large) + Part("0", "tiny\r\n--") + Part("2", "") + "--B--\r\n";
  const RawResponse added = Call(Post(kRecords, body, kMultipart));
  EXPECT_EQ(added.status, 201) << added.body;
  const RawResponse blob = Call(Get(std::string(kRecords) + "/large/blob"));
  EXPECT_EQ(blob.status, 200);
  EXPECT_EQ(blob.Header("content-type"), "application/octet-stream");
  EXPECT_TRUE(blob.body == large);
  EXPECT_EQ(Call(Get(std::string(kRecords) + "/small/blob")).body, "tiny\r\n--");
  const RawResponse empty = Call(Get(std::string(kRecords) + "/empty/blob"));
  EXPECT_EQ(empty.status, 200);
  EXPECT_EQ(empty.body, "");
  ExpectEnvelope(Call(Get(std::string(kRecords) + "/none/blob")), 404, "NOT_FOUND");
  const RawResponse head =
      Call("HEAD " + std::string(kRecords) + "/large/blob HTTP/1.1\r\nhost: t\r\n\r\n");
  EXPECT_EQ(head.Header("content-length"), std::to_string(large.size()));
}

TEST_F(LiveServer, SpooledPartsAreNotChargedAsMemory) {
  StartWithStore(/*memory_limit=*/4 << 20);
  const std::string large(24 << 20, 'x');
  const std::string body = Part("metadata", Records(Record("1"))) + Part("0", large) + "--B--\r\n";
  EXPECT_EQ(Call(Post(kRecords, body, kMultipart)).status, 201);
  EXPECT_LT(catalog_.table("exp").charged(), 1 << 20);
  EXPECT_TRUE(Call(Get(std::string(kRecords) + "/1/blob")).body == large);
}

TEST_F(LiveServer, BrokenMultipartBodiesAreRefused) {
  StartWithStore();
  const std::string metadata =
      Part("metadata", Records(Record("1") + "," + Record("2", R"(,"payload_size":3)")));
  const std::string good = metadata + Part("1", "abc") + "--B--\r\n";
  EXPECT_EQ(Call(Post(kRecords, good, kMultipart)).status, 201);
  for (const std::string& body :
       {Part("0", "x") + metadata + "--B--\r\n", metadata + Part("1", "abcd") + "--B--\r\n",
        metadata + "--B--\r\n", metadata + Part("1", "abc") + Part("1", "abc") + "--B--\r\n",
        metadata + Part("1", "abc") + Part("2", "x") + "--B--\r\n",
        metadata + Part("1", "abc") + Part("x", "x") + "--B--\r\n",
        metadata + Part("1", "abc") + Part("-1", "x") + "--B--\r\n", metadata + Part("1", "abc"),
        metadata + Part("1", "abc") + "--B--\r\ngarbage",
        Part("metadata", Records("")) + "--B--\r\n", std::string("--B--\r\n"), std::string()}) {
    ExpectEnvelope(Call(Post(kRecords, body, kMultipart)), 400, "INVALID_REQUEST");
  }
  ExpectEnvelope(Call(Post(kRecords, good, "multipart/form-data")), 400, "INVALID_REQUEST");
  EXPECT_EQ(catalog_.table("exp").row_count(), 2U);
}

TEST_F(LiveServer, BodiesOfTheWrongKindAreRefused) {
  StartWithStore();
  const char* create = "/api/v1/rollouts";
  ExpectEnvelope(Call(Post(create, "{")), 400, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post(create, "{}")), 422, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post(create, R"({"name":"x"})", "text/plain")), 415, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post(create, R"({"name":"../x"})")), 400, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post(kRecords, Records(Record("1")), "text/plain")), 400, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post(kRecords, Records(""))), 400, "INVALID_REQUEST");
  ExpectEnvelope(Call(Post(create, std::string((2 << 20) + 1, ' '))), 413, "PAYLOAD_TOO_LARGE");
  ExpectEnvelope(Call(Get("/nowhere")), 404, "NOT_FOUND");
  ExpectEnvelope(Call(Get("/api/v1/rollouts/")), 404, "NOT_FOUND");
  ExpectEnvelope(Call(Get("/api/v1/%zz")), 400, "INVALID_REQUEST");
  const RawResponse method =
      Call("PUT /api/v1/rollouts HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n\r\n");
  ExpectEnvelope(method, 405, "METHOD_NOT_ALLOWED");
  EXPECT_EQ(method.Header("allow"), "POST, GET, HEAD");
}

TEST_F(LiveServer, SpentBudgetIsSaidBeforeTheBodyIsRead) {
  StartWithStore(/*memory_limit=*/1 << 20);
  ASSERT_EQ(Call(Post(kRecords, Records(Record("1")))).status, 201);  // stays charged
  RawClient client = Connect();
  client.Send(
      "POST " + std::string(kRecords) +
      " HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 2000000\r\n\r\n");
  const RawResponse full = client.Read();
  ExpectEnvelope(full, 503, "OVERLOADED");
  EXPECT_EQ(full.Header("retry-after"), "1");
  EXPECT_EQ(full.Header("connection"), "close");
}

TEST_F(LiveServer, FlushIsWaitedForAndItsFailureSaysThatRowsAreDurable) {
  StartWithStore();
  EXPECT_EQ(Call(Post(std::string(kRecords) + "?flush=true", Records(Record("1")))).status, 201);
  const RawResponse flushed = Call(Post("/api/v1/rollouts/exp/flush", ""));
  EXPECT_TRUE(flushed.body.starts_with(R"({"sealed_generation":1,"rows":1,"milliseconds":)"))
      << flushed.body;
  catalog_.table("exp").FailFlush(Error(ErrorKind::kIo, "disk on fire"));
  ExpectEnvelope(Call(Post(std::string(kRecords) + "?flush", Records(Record("2")))), 500,
                 "DURABLE_NOT_FLUSHED");
  EXPECT_EQ(catalog_.table("exp").row_count(), 2U);
  EXPECT_EQ(Call(Post(std::string(kRecords) + "?flush=no", Records(Record("3")))).status, 201);
  ExpectEnvelope(Call(Post("/api/v1/rollouts/exp/flush", "")), 500, "INTERNAL");
  catalog_.table("exp").FailAppends(Error(ErrorKind::kFenced, "epoch 9 owns the shard"));
  const RawResponse fenced = Call(Post(kRecords, Records(Record("4"))));
  ExpectEnvelope(fenced, 503, "FENCED");
  EXPECT_EQ(fenced.Header("retry-after"), "");
}

TEST_F(LiveServer, CheckoutAnswersTheVersionThatIsReadFromNowOn) {
  StartWithStore();
  const char* path = "/api/v1/rollouts/exp/checkout";
  EXPECT_EQ(Call(Post(path, R"({"version":2})")).body, R"({"version":2})");
  EXPECT_EQ(Call(Post(path, R"({"version":1})")).body, R"({"version":1})");
  EXPECT_EQ(Call(Post(path, R"({"version":null})")).body, R"({"version":2})");
  ExpectEnvelope(Call(Post(path, R"({"version":99})")), 404, "NOT_FOUND");
  ExpectEnvelope(Call(Post(path, "{}")), 422, "INVALID_REQUEST");
}

TEST_F(LiveServer, MetricsCountRequestsByRoute) {
  StartWithStore();
  ASSERT_EQ(Call(Post(kRecords, Records(Record("1")))).status, 201);
  ASSERT_EQ(Call(Get("/somewhere")).status, 404);
  // A request is counted after its last byte, so the client may be here before the counter.
  RawResponse metrics;
  const char* last_counted = R"(http_requests_total{method="GET",path="",status="404"} 1)";
  for (int tries = 0; tries < 1000 && metrics.body.find(last_counted) == std::string::npos;
       ++tries) {
    metrics = Call(Get("/metrics"));
  }
  EXPECT_EQ(metrics.Header("content-type"), "text/plain; version=0.0.4");
  for (
      const char* line :
      {R"(http_requests_total{method="POST",path="/api/v1/rollouts/{name}/records",status="201"} 1)",
       last_counted, R"(rollout_appends_total{flush="false"} 1)",
       "rollout_records_appended_total 1", "rollout_stores_resident 1",
       "process_resident_memory_bytes"}) {
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line << "\n" << metrics.body;
  }
}

}  // namespace
}  // namespace sarissa::server
