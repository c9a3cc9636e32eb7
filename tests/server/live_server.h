// A server on a free loopback port over a FakeCatalog, for one test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "env/posix/posix_env.h"
#include "server/server.h"
#include "server/spool.h"
#include "tests/server/fake_catalog.h"
#include "tests/server/raw_client.h"

namespace sarissa::server {

class LiveServer : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/sarissa-server-test-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    directory_ = path;
    options_.host = "127.0.0.1";
    options_.port = 0;
  }
  void TearDown() override {
    server_.reset();
    // The stores hold charges of the machine's budget, so that it dies after them.
    if (machine_ != nullptr) machine_->Stop();
    std::filesystem::remove_all(directory_);
  }

  void Start(int64_t memory_limit = 0) {
    env::PosixEnv::Options env_options;
    env_options.storage_threads = 2;
    env_options.cpu_threads = 1;
    env_options.memory_limit = memory_limit;
    machine_ = std::make_unique<env::PosixEnv>(env_options, metrics_);
    const auto spool = PrepareSpoolDirectory(*machine_->env().file_system, directory_);
    ASSERT_TRUE(spool.ok()) << spool.status();
    options_.spool_directory = *spool;
    auto server = Server::Start(options_, machine_->env(), catalog_, metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }
  // A server with one store, "exp".
  void StartWithStore(int64_t memory_limit = 0) {
    Start(memory_limit);
    ASSERT_TRUE(catalog_.Create("exp").Get().ok());
  }

  RawClient Connect() { return RawClient(server_->port()); }
  RawResponse Call(std::string_view request) {
    RawClient client(server_->port());
    return client.Call(request);
  }

  std::string directory_;
  ServerOptions options_;
  PrometheusMetrics metrics_;
  std::unique_ptr<env::PosixEnv> machine_;
  FakeCatalog catalog_;
  std::unique_ptr<Server> server_;
};

inline constexpr char kRecords[] = "/api/v1/rollouts/exp/records";

inline void ExpectEnvelope(const RawResponse& response, int status, const std::string& code) {
  EXPECT_EQ(response.status, status) << response.body;
  EXPECT_EQ(response.Header("content-type"), "application/json");
  EXPECT_TRUE(response.body.starts_with(R"({"error":{"code":")" + code + R"(","message":")"))
      << response.body;
}

}  // namespace sarissa::server
