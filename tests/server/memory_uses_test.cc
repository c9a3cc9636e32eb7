// Who holds the memory budget, as the operator sees it: a server over the real engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/sync_point.h"
#include "engine/catalog.h"
#include "env/posix/posix_env.h"
#include "memwal/merge.h"
#include "object_store/memory_store.h"
#include "rollout/record_schema.h"
#include "server/list_stream.h"
#include "server/server.h"
#include "server/spool.h"
#include "tests/server/raw_client.h"

namespace sarissa::server {
namespace {

constexpr env::Duration kWait = std::chrono::seconds(60);
constexpr int64_t kLimit = int64_t{1} << 30;
constexpr char kExpRecords[] = "/api/v1/rollouts/exp/records";

class MemoryUses : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/sarissa-server-test-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    directory_ = path;
    env::PosixEnv::Options machine;
    machine.memory_limit = kLimit;
    machine_ = std::make_unique<env::PosixEnv>(machine, metrics_);
    engine::CatalogOptions options;
    options.schema = lance::Schema::FromArrow(*rollout::RecordSchema()).ValueOrDie();
    options.flush_interval = {};
    options.reconcile = false;
    catalog_ = engine::Catalog::Open(store_, machine_->env(), std::move(options)).ValueOrDie();
    ServerOptions http;
    http.host = "127.0.0.1";
    http.port = 0;
    http.spool_directory =
        PrepareSpoolDirectory(*machine_->env().file_system, directory_).ValueOrDie();
    server_ = Server::Start(http, machine_->env(), *catalog_, metrics_).ValueOrDie();
    ASSERT_EQ(Call(Post("/api/v1/rollouts", R"({"name":"exp"})")).status, 201);
  }
  void TearDown() override {
    SyncPoints::Instance().Clear();
    server_.reset();
    if (catalog_ == nullptr) return;
    EXPECT_TRUE(catalog_->Close(kWait).ok());
    catalog_.reset();
    if (machine_ != nullptr) machine_->Stop();
    std::filesystem::remove_all(directory_);
  }

  RawResponse Call(std::string_view request) { return RawClient(server_->port()).Call(request); }
  void Append(const std::string& id, size_t text_bytes) {
    const std::string body = R"({"records":[{"id":")" + id + R"(","rollout_id":"r","content":")" +
                             std::string(text_bytes, 'x') + R"("}]})";
    ASSERT_EQ(Call(Post(kExpRecords, body)).status, 201);
  }
  void Flush() { ASSERT_EQ(Call(Post("/api/v1/rollouts/exp/flush", "")).status, 200); }
  void Evict() { ASSERT_TRUE(catalog_->Evict("exp", kWait).Wait(kWait).ok()); }

  env::MemoryBudget& budget() { return *machine_->env().budget; }
  // The number after `key` in `text`; -1 when it is not there.
  static double NumberAfter(const std::string& text, const std::string& key) {
    const size_t at = text.find(key);
    return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + key.size(), nullptr);
  }
  // One use as the status route says it; the metrics and the budget say the same.
  double Used(env::MemoryUse use) {
    const std::string name(env::MemoryUseName(use));
    const std::string status = Call(Get("/api/v1/status")).body;
    const std::string uses = status.substr(std::min(status.find(R"("uses":{)"), status.size()));
    const double bytes = NumberAfter(uses, '"' + name + R"(":)");
    const std::string text = Call(Get("/metrics")).body;
    EXPECT_EQ(NumberAfter(text, R"(rollout_memory_bytes{use=")" + name + R"("} )"), bytes);
    EXPECT_EQ(static_cast<double>(budget().used(use)), bytes) << status;
    return bytes;
  }
  // What is larger than the budget gets in when nothing but caches is left of it.
  void WaitUntilOnlyCachesAreCharged() {
    const auto alone = budget().ReserveWithin(2 * kLimit, env::MemoryUse::kMerges, "the test",
                                              *machine_->env().storage, kWait);
    ASSERT_TRUE(alone.Wait(kWait).ok());
    (*alone.Get())->Release();
  }
  void WaitUntilNothingIsCharged() {
    // With a byte of it charged, the rest is there only when nobody else has any.
    const env::Reservation one = budget().Force(1, env::MemoryUse::kMerges);
    const auto rest = budget().ReserveWithin(kLimit - 1, env::MemoryUse::kMerges, "the test",
                                             *machine_->env().storage, kWait);
    ASSERT_TRUE(rest.Wait(kWait).ok());
    (*rest.Get())->Release();
  }

  std::string directory_;
  object_store::MemoryStore store_;
  PrometheusMetrics metrics_;
  std::unique_ptr<env::PosixEnv> machine_;
  std::shared_ptr<engine::Catalog> catalog_;
  std::unique_ptr<Server> server_;
};

TEST_F(MemoryUses, AnAppendIsMemtablesUntilItIsFlushed) {
  EXPECT_EQ(Used(env::MemoryUse::kMemtables), 0);
  Append("a", 100'000);
  EXPECT_GE(Used(env::MemoryUse::kMemtables), 100'000);
  EXPECT_EQ(Used(env::MemoryUse::kBodies), 0) << "the same bytes must not count twice";
  Flush();
  WaitUntilOnlyCachesAreCharged();
  EXPECT_EQ(Used(env::MemoryUse::kMemtables), 0);
}

TEST_F(MemoryUses, AnOpenTableIsCachesUntilItIsEvicted) {
  const double empty = Used(env::MemoryUse::kCaches);
  EXPECT_GT(empty, 0) << "the table that was made is open";
  Append("a", 100);
  const double writing = Used(env::MemoryUse::kCaches);
  EXPECT_GT(writing, empty) << "an open writer counts";
  Flush();
  ASSERT_EQ(Call(Get(kExpRecords)).status, 200);
  EXPECT_GT(Used(env::MemoryUse::kCaches), writing) << "so does the reader of a generation";
  Evict();
  WaitUntilNothingIsCharged();
  EXPECT_EQ(Used(env::MemoryUse::kCaches), 0);
  ASSERT_EQ(Call(Get(kExpRecords)).status, 200);
  EXPECT_GT(Used(env::MemoryUse::kCaches), empty) << "opened again, with its generation";
}

TEST_F(MemoryUses, AListIsScansWhileItIsSent) {
  // More than the buffers of a connection hold.
  for (int i = 0; i < 24; ++i) Append(std::to_string(i), 1 << 20);
  Flush();
  {
    RawClient stalled(server_->port());
    ASSERT_TRUE(stalled.Send(Get(kExpRecords)));
    ASSERT_EQ(stalled.Read(/*head_request=*/true).status, 200);
    EXPECT_GE(budget().used(env::MemoryUse::kScans), ListStream::kChargeBytes);
  }
  WaitUntilOnlyCachesAreCharged();
  EXPECT_EQ(Used(env::MemoryUse::kScans), 0);
}

TEST_F(MemoryUses, AMergeIsChargedBeforeItReadsAndRefusedWithoutAChange) {
  Append("a", 100);
  Flush();
  WaitUntilOnlyCachesAreCharged();
  memwal::MergeOptions options;
  options.store = &store_;
  options.env = &machine_->env();
  options.table = "exp.rollout.lance";
  options.shard = ShardId::FromName("default");
  memwal::MergeReport report;
  {
    const auto full = budget().Reserve(2 * kLimit, env::MemoryUse::kBodies, "the test");
    ASSERT_TRUE(full.ok());
    const Status refused = memwal::MergeGenerations(options, report);
    EXPECT_TRUE(Is(refused, ErrorKind::kOverloaded)) << refused;
    EXPECT_EQ(report.generations_merged, 0U);
  }
  int64_t during = 0;
  SyncPoints::Instance().Arm("merge.before_commit",
                             [&] { during = budget().used(env::MemoryUse::kMerges); });
  const Status merged = memwal::MergeGenerations(options, report);
  ASSERT_TRUE(merged.ok()) << merged;
  EXPECT_EQ(report.generations_merged, 1U);
  EXPECT_GT(during, 0);
  EXPECT_EQ(Used(env::MemoryUse::kMerges), 0);
}

}  // namespace
}  // namespace sarissa::server
