#include "server/server.h"

#include <arrow/result.h>
#include <fmt/format.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>

#include "env/posix/thread_pool.h"
#include "server/asio_executor.h"
#include "server/connection_set.h"
#include "server/dispatcher.h"
#include "server/http_metrics.h"
#include "server/listener.h"

namespace sarissa::server {
namespace {

// Long enough for every bounded wait of a connection, one after another.
constexpr env::Duration kLongestDrain = std::chrono::hours(24);

}  // namespace

class Server::State {
 public:
  State(ServerOptions options, const env::Env& env, engine::Catalog& catalog,
        PrometheusMetrics& prometheus)
      : options_(std::move(options)),
        io_(context_),
        work_(context_.get_executor()),
        metrics_(prometheus),
        route_context_{.env = env,
                       .io = io_,
                       .catalog = catalog,
                       .options = options_,
                       .metrics = metrics_,
                       .prometheus = prometheus,
                       .draining = draining_},
        dispatcher_(route_context_),
        threads_({.name = "io", .threads = options_.io_threads}) {}

  ~State() {
    io_.Stop();
    context_.stop();
    threads_.Stop();
  }

  Status Start() {
    ARROW_ASSIGN_OR_RAISE(listener_, Listener::Open(context_, dispatcher_, connections_));
    listener_->Start();
    for (int i = 0; i < options_.io_threads; ++i) {
      threads_.Post([this] { context_.run(); });
    }
    return Status::OK();
  }

  Status Drain() {
    draining_.store(true, std::memory_order_relaxed);
    ARROW_RETURN_NOT_OK(listener_->Stop().Wait(kLongestDrain).status());
    return connections_.Drain().Wait(kLongestDrain).status();
  }

  boost::asio::ip::tcp::endpoint endpoint() const { return listener_->endpoint(); }

 private:
  const ServerOptions options_;
  boost::asio::io_context context_;
  AsioExecutor io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  HttpMetrics metrics_;
  std::atomic<bool> draining_{false};
  RouteContext route_context_;
  Dispatcher dispatcher_;
  ConnectionSet connections_;
  std::shared_ptr<Listener> listener_;
  env::ThreadPool threads_;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options, const env::Env& env,
                                              engine::Catalog& catalog,
                                              PrometheusMetrics& metrics) {
  auto state = std::make_unique<State>(std::move(options), env, catalog, metrics);
  ARROW_RETURN_NOT_OK(state->Start());
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

uint16_t Server::port() const {
  return state_->endpoint().port();
}

std::string Server::address() const {
  const auto endpoint = state_->endpoint();
  const std::string host = endpoint.address().to_string();
  if (endpoint.address().is_v6()) return fmt::format("[{}]:{}", host, endpoint.port());
  return fmt::format("{}:{}", host, endpoint.port());
}

Status Server::Drain() {
  return state_->Drain();
}

}  // namespace sarissa::server
