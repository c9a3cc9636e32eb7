// HTTP/1.1 itself, spoken byte by byte: framing, limits, timeouts, shutdown.
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/live_server.h"

namespace sarissa::server {
namespace {

constexpr char kOneRecord[] = R"({"records":[{"id":"1","rollout_id":"r"}]})";

std::string Chunked(const std::string& path, const std::vector<std::string>& chunks,
                    const std::string& end = "0\r\n\r\n") {
  std::string request = "POST " + path +
                        " HTTP/1.1\r\nhost: t\r\ncontent-type: "
                        "application/json\r\ntransfer-encoding: chunked\r\n\r\n";
  char size[32];
  for (const std::string& chunk : chunks) {
    std::snprintf(size, sizeof size, "%zx;ext=1\r\n", chunk.size());
    request += size + chunk + "\r\n";
  }
  return request + end;
}

TEST_F(LiveServer, KeepsAConnectionForManyRequests) {
  StartWithStore();
  RawClient client = Connect();
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(client.Call(Get("/api/v1/health")).status, 200);
    ASSERT_EQ(client.Call(Post(kRecords, kOneRecord)).status, 201);
    ASSERT_EQ(client.Call(Get("/nowhere")).status, 404);
  }
  EXPECT_EQ(catalog_.table("exp").row_count(), 50U);
}

TEST_F(LiveServer, AnswersPipelinedRequestsInOrder) {
  StartWithStore();
  RawClient client = Connect();
  std::string burst;
  for (int i = 0; i < 20; ++i)
    burst += Get("/api/v1/health") + Post(kRecords, kOneRecord) + Chunked(kRecords, {kOneRecord}) +
             Get("/nowhere");
  ASSERT_TRUE(client.Send(burst));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(client.Read().status, 200);
    ASSERT_EQ(client.Read().status, 201);
    ASSERT_EQ(client.Read().status, 201);
    ASSERT_EQ(client.Read().status, 404);
  }
}

TEST_F(LiveServer, AnswersRequestsThatComeByteByByte) {
  StartWithStore();
  RawClient client = Connect();
  for (const std::string& request :
       {Get("/api/v1/health"), Post(kRecords, kOneRecord),
        Chunked(kRecords, {"{\"records\":", "[{\"id\":\"1\",\"rollout_id\":\"r\"}]}"})}) {
    for (const char byte : request) ASSERT_TRUE(client.Send(std::string_view(&byte, 1)));
    EXPECT_LT(client.Read().status, 300);
  }
}

TEST_F(LiveServer, HeadIsAnsweredByEveryGetRouteWithoutABody) {
  StartWithStore();
  RawClient client = Connect();
  for (const char* path : {"/api/v1/health", "/livez", "/readyz", "/metrics", "/api/v1/rollouts",
                           "/api/v1/rollouts/exp", kRecords, "/api/v1/rollouts/exp/records/1"}) {
    const RawResponse head =
        client.Call("HEAD " + std::string(path) + " HTTP/1.1\r\nhost: t\r\n\r\n");
    EXPECT_EQ(head.status, 200) << path;
    EXPECT_NE(head.Header("content-length"), "0") << path;
  }
  EXPECT_EQ(client.Call("HEAD /nowhere HTTP/1.1\r\nhost: t\r\n\r\n").status, 404);
  EXPECT_EQ(client.Call(Get("/livez")).status, 200);
}

TEST_F(LiveServer, OldClientsGetTheirConnectionClosed) {
  StartWithStore();
  RawClient client = Connect();
  const RawResponse response = client.Call("GET /livez HTTP/1.0\r\n\r\n");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Header("connection"), "close");
  EXPECT_TRUE(client.AtEnd());
  RawClient keeping = Connect();
  EXPECT_EQ(
      keeping.Call("GET /livez HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").Header("connection"),
      "keep-alive");
  EXPECT_EQ(keeping.Call("GET /livez HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")
                .Header("connection"),
            "close");
  EXPECT_TRUE(keeping.AtEnd());
}

TEST_F(LiveServer, LeaveToSendIsGivenWhenTheBodyIsWanted) {
  StartWithStore();
  RawClient client = Connect();
  const std::string head = "POST " + std::string(kRecords) +
                           " HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\nexpect: "
                           "100-continue\r\ncontent-length: " +
                           std::to_string(sizeof kOneRecord - 1) + "\r\n\r\n";
  client.Send(head);
  EXPECT_EQ(client.Read().status, 100);
  client.Send(kOneRecord);
  EXPECT_EQ(client.Read().status, 201);
  // A request that is refused without its body gets its answer at once.
  client.Send(
      "POST /nowhere HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n");
  ExpectEnvelope(client.Read(), 404, "NOT_FOUND");
  EXPECT_TRUE(client.AtEnd());
  ExpectEnvelope(
      Call("POST /nowhere HTTP/1.1\r\nhost: t\r\nexpect: magic\r\ncontent-length: 1\r\n\r\nx"), 417,
      "INVALID_REQUEST");
}

TEST_F(LiveServer, MalformedRequestsGetAnEnvelopeAndAreClosed) {
  StartWithStore();
  struct Case {
    std::string request;
    int status;
  };
  const std::string start = "POST " + std::string(kRecords) +
                            " HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n";
  const std::vector<Case> cases = {
      {start + "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {start + "transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", 400},
      {start + "content-length: 5\r\ncontent-length: 6\r\n\r\nxxxxx", 400},
      {start + "content-length: -5\r\n\r\n", 400},
      {start + "content-length: 99999999999999999999999\r\n\r\n", 400},
      {start + "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {start + "transfer-encoding: gzip\r\n\r\n", 501},
      {start + "bad header\r\n\r\n", 400},
      {"GET /livez HTTP/1.1\r\n\r\n", 400},
      {"GET /livez HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400},
      {"GET  /livez HTTP/1.1\r\nhost: t\r\n\r\n", 400},
      {"GET /livez HTTP/2.0\r\nhost: t\r\n\r\n", 505},
      {"\x16\x03\x01\x02\r\n\r\n", 400},
      {"GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nhost: t\r\n\r\n", 414},
      {"GET /" + std::string(40000, 'a') + " HTTP/1.1\r\nhost: t\r\n\r\n", 414},
      {"GET /livez HTTP/1.1\r\nhost: t\r\nx: " + std::string(20000, 'a') + "\r\n\r\n", 431},
      {"GET * HTTP/1.1\r\nhost: t\r\n\r\n", 400},
      {Chunked(kRecords, {}, "zz\r\n"), 400},
      {Chunked(kRecords, {}, "5\r\nabcdefgh\r\n"), 400},
      {Chunked(kRecords, {}, "1;" + std::string(100000, 'e') + "\r\n"), 400},
  };
  for (const Case& c : cases) {
    RawClient client = Connect();
    client.Send(c.request);
    const RawResponse response = client.Read();
    SCOPED_TRACE(c.request.substr(0, 200));
    ExpectEnvelope(response, c.status, "INVALID_REQUEST");
  }
  EXPECT_EQ(catalog_.table("exp").row_count(), 0U);
  EXPECT_EQ(Call(Get("/livez")).status, 200);
}

TEST_F(LiveServer, TruncatedBodiesStoreNothing) {
  StartWithStore();
  const std::string request = Post(kRecords, kOneRecord);
  const std::string chunked = Chunked(kRecords, {kOneRecord});
  for (const std::string& cut :
       {request.substr(0, request.size() - 1), chunked.substr(0, chunked.size() - 5)}) {
    RawClient client = Connect();
    client.Send(cut);
    client.FinishSending();
    ExpectEnvelope(client.Read(), 400, "INVALID_REQUEST");
  }
  EXPECT_EQ(catalog_.table("exp").row_count(), 0U);
}

TEST_F(LiveServer, ChunkedBodiesOverTheLimitAreCutOff) {
  options_.append_body_limit = 1000;
  StartWithStore();
  ExpectEnvelope(Call(Chunked(kRecords, {std::string(600, ' '), std::string(600, ' ')})), 413,
                 "PAYLOAD_TOO_LARGE");
  ExpectEnvelope(Call(Post(kRecords, std::string(1001, ' '))), 413, "PAYLOAD_TOO_LARGE");
  ExpectEnvelope(Call(Post(kRecords, std::string(1001, ' '), "multipart/form-data; boundary=B")),
                 413, "PAYLOAD_TOO_LARGE");
}

TEST_F(LiveServer, LargeChunkedBodiesArrive) {
  StartWithStore();
  std::vector<std::string> chunks = {R"({"records":[{"id":"1","rollout_id":"r","content":")"};
  for (int i = 0; i < 40; ++i) chunks.emplace_back(50'000 + i, 'z');
  chunks.emplace_back("\"}]}");
  EXPECT_EQ(Call(Chunked(kRecords, chunks)).status, 201);
  EXPECT_GT(Call(Get(kRecords)).body.size(), 2'000'000U);
}

TEST_F(LiveServer, BodyThatStopsComingGets408) {
  options_.body_idle_timeout = std::chrono::milliseconds(50);
  StartWithStore();
  RawClient client = Connect();
  const std::string request = Post(kRecords, kOneRecord);
  client.Send(request.substr(0, request.size() - 3));
  ExpectEnvelope(client.Read(), 408, "TIMEOUT");
  EXPECT_EQ(catalog_.table("exp").row_count(), 0U);
}

TEST_F(LiveServer, HeadThatStopsComingGets408AndIdleConnectionsAreClosed) {
  options_.header_timeout = std::chrono::milliseconds(50);
  options_.keep_alive_timeout = std::chrono::milliseconds(50);
  StartWithStore();
  RawClient slow = Connect();
  slow.Send("GET /livez HT");
  ExpectEnvelope(slow.Read(), 408, "TIMEOUT");
  RawClient idle = Connect();
  EXPECT_TRUE(idle.AtEnd());
}

TEST_F(LiveServer, ClientThatGoesAwayDoesNotCancelItsAppend) {
  StartWithStore();
  FakeTable& table = catalog_.table("exp");
  table.HoldAppends();
  {
    RawClient client = Connect();
    client.Send(Post(kRecords, kOneRecord));
    while (table.row_count() == 0) std::this_thread::yield();
  }
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  table.ReleaseAppends();
  EXPECT_TRUE(drained.get().ok());
  const std::string counted = "rollout_appends_total{flush=\"false\"} 1";
  EXPECT_NE(metrics_.Render().find(counted), std::string::npos);
}

TEST_F(LiveServer, DrainLetsRequestsInFlightEndAndClosesIdleConnections) {
  StartWithStore();
  FakeTable& table = catalog_.table("exp");
  table.HoldAppends();
  RawClient idle = Connect();
  ASSERT_EQ(idle.Call(Get("/livez")).status, 200);
  RawClient busy = Connect();
  busy.Send(Post(kRecords, kOneRecord));
  while (table.row_count() == 0) std::this_thread::yield();
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  EXPECT_TRUE(idle.AtEnd());
  // What comes behind the request in flight is turned away.
  busy.Send(Get("/readyz"));
  table.ReleaseAppends();
  const RawResponse added = busy.Read();
  EXPECT_EQ(added.status, 201);
  EXPECT_EQ(added.Header("connection"), "close");
  EXPECT_TRUE(drained.get().ok());
  EXPECT_THROW(RawClient(server_->port()), boost::system::system_error);
}

TEST_F(LiveServer, RequestWhoseHeadEndsDuringTheDrainIsTurnedAway) {
  StartWithStore();
  FakeTable& table = catalog_.table("exp");
  table.HoldAppends();
  RawClient holder = Connect();
  holder.Send(Post(kRecords, kOneRecord));
  RawClient late = Connect();
  // The answer to the first request shows that the server has read the start of the second one with
  // it.
  late.Send(Get("/livez") + "GET /livez HTTP/1.1\r\n");
  ASSERT_EQ(late.Read().status, 200);
  while (table.row_count() == 0) std::this_thread::yield();
  RawClient idle = Connect();
  ASSERT_EQ(idle.Call(Get("/livez")).status, 200);
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  ASSERT_TRUE(idle.AtEnd());  // the drain has begun
  late.Send("host: t\r\n\r\n");
  const RawResponse refused = late.Read();
  ExpectEnvelope(refused, 503, "DRAINING");
  EXPECT_EQ(refused.Header("connection"), "close");
  table.ReleaseAppends();
  EXPECT_EQ(holder.Read().status, 201);
  EXPECT_TRUE(drained.get().ok());
}

TEST_F(LiveServer, ManyClientsAtOnce) {
  StartWithStore();
  std::vector<std::future<int>> clients;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(std::async(std::launch::async, [&] {
      RawClient client(server_->port());
      int stored = 0;
      for (int n = 0; n < 20; ++n)
        stored += client.Call(Post(kRecords, kOneRecord)).status == 201 ? 1 : 0;
      return stored;
    }));
  }
  int stored = 0;
  for (auto& client : clients) stored += client.get();
  EXPECT_EQ(stored, 320);
  EXPECT_EQ(catalog_.table("exp").row_count(), 320U);
}

}  // namespace
}  // namespace sarissa::server
