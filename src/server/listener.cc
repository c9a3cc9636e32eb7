#include "server/listener.h"

#include <arrow/result.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <chrono>
#include <exception>

#include "server/log.h"

namespace sarissa::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// Pause after an accept that failed or had to wait: no file descriptors left, or too many
// connections.
constexpr auto kAcceptPause = std::chrono::milliseconds(50);

// Waits on the strand of the coroutine.
Awaitable<void> Pause(tcp::acceptor::executor_type executor) {
  asio::steady_timer timer(executor);
  timer.expires_after(kAcceptPause);
  error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

Result<tcp::endpoint> Resolve(asio::io_context& context, const std::string& host, uint16_t port) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (!error) return tcp::endpoint(address, port);
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, std::to_string(port), error);
  if (error || found.empty()) {
    return Error(ErrorKind::kInvalid, "cannot listen on '{}': {}", host, error.message());
  }
  return found.begin()->endpoint();
}

}  // namespace

Result<std::shared_ptr<Listener>> Listener::Open(asio::io_context& context, Dispatcher& dispatcher,
                                                 ConnectionSet& connections) {
  std::shared_ptr<Listener> listener(new Listener(context, dispatcher, connections));
  ARROW_RETURN_NOT_OK(listener->Bind());
  return listener;
}

Status Listener::Bind() {
  const ServerOptions& options = dispatcher_.context().options;
  ARROW_ASSIGN_OR_RAISE(const tcp::endpoint wanted, Resolve(context_, options.host, options.port));
  error_code error;
  acceptor_.open(wanted.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(wanted, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) endpoint_ = acceptor_.local_endpoint(error);
  if (!error) return Status::OK();
  return Error(ErrorKind::kIo, "cannot listen on {}:{}: {}", options.host, options.port,
               error.message());
}

void Listener::Start() {
  asio::co_spawn(
      acceptor_.get_executor(), [self = shared_from_this()] { return self->Run(); },
      [](const std::exception_ptr& error) {
        if (error != nullptr) std::rethrow_exception(error);
      });
}

env::Future<env::Unit> Listener::Stop() {
  auto promise = std::make_shared<env::Promise<env::Unit>>();
  asio::post(acceptor_.get_executor(), [self = shared_from_this(), promise] {
    error_code ignored;
    self->acceptor_.close(ignored);
    promise->Set(env::Unit{});
  });
  return promise->future();
}

Awaitable<void> Listener::Run() {
  while (acceptor_.is_open()) {
    if (connections_.size() >= dispatcher_.context().options.max_connections) {
      co_await Pause(acceptor_.get_executor());
      continue;
    }
    error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(
        asio::make_strand(context_), asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor_.is_open()) co_return;
    if (error) {
      LogLine(LogLevel::kWarning, "accept_failed").With("error", error.message());
      co_await Pause(acceptor_.get_executor());
      continue;
    }
    Serve(std::move(socket));
  }
}

void Listener::Serve(tcp::socket socket) {
  auto executor = socket.get_executor();
  auto io = std::make_shared<ConnectionIo>(std::move(socket), *dispatcher_.context().env.clock);
  auto connection = std::make_shared<Connection>(std::move(io), dispatcher_);
  const uint64_t id = connections_.Add(connection);
  asio::co_spawn(
      executor, [connection] { return connection->Run(); },
      [this, id](const std::exception_ptr& error) {
        connections_.Remove(id);
        if (error == nullptr) return;
        try {
          std::rethrow_exception(error);
        } catch (const std::exception& e) {
          LogLine(LogLevel::kError, "connection_failed").With("what", e.what());
        }
      });
}

}  // namespace sarissa::server
