#include "server/connection_io.h"

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <utility>

namespace sarissa::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

}  // namespace

ConnectionIo::ConnectionIo(asio::ip::tcp::socket socket, const env::Clock& clock)
    : socket_(std::move(socket)), clock_(clock), timer_(socket_.get_executor()) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

void ConnectionIo::SetDeadline(env::Duration from_now) {
  timed_out_ = false;
  deadline_ = clock_.Now() + from_now;
  if (!timer_running_ || timer_.expiry() > deadline_) StartTimer();
}

void ConnectionIo::StartTimer() {
  timer_running_ = true;
  timer_.expires_at(deadline_);
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const std::shared_ptr<ConnectionIo> self = weak.lock();
    if (self != nullptr && error != asio::error::operation_aborted) self->OnTimer();
  });
}

void ConnectionIo::OnTimer() {
  if (clock_.Now() < deadline_) return StartTimer();
  timer_running_ = false;
  timed_out_ = true;
  Cancel();
}

IoOutcome ConnectionIo::Outcome(const error_code& error) const {
  if (!error) return IoOutcome::kDone;
  return timed_out_ ? IoOutcome::kTimedOut : IoOutcome::kClosed;
}

Awaitable<IoOutcome> ConnectionIo::ReadMore() {
  error_code error;
  const size_t got = co_await socket_.async_read_some(
      buffer_.prepare(kReadBytes), asio::redirect_error(asio::use_awaitable, error));
  buffer_.commit(got);
  co_return Outcome(error);
}

Awaitable<IoOutcome> ConnectionIo::ReadInto(asio::mutable_buffer into, size_t& got) {
  error_code error;
  got = co_await socket_.async_read_some(into, asio::redirect_error(asio::use_awaitable, error));
  co_return Outcome(error);
}

Awaitable<IoOutcome> ConnectionIo::Write(std::vector<asio::const_buffer> buffers,
                                         env::Duration stall_timeout) {
  auto first = buffers.begin();
  for (;;) {
    while (first != buffers.end() && first->size() == 0) ++first;
    if (first == buffers.end()) co_return IoOutcome::kDone;
    SetDeadline(stall_timeout);
    error_code error;
    const std::vector<asio::const_buffer> rest(first, buffers.end());
    size_t written =
        co_await socket_.async_write_some(rest, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return Outcome(error);
    while (written > 0) {
      const size_t step = std::min(written, first->size());
      *first += step;
      written -= step;
      if (first->size() == 0) ++first;
    }
  }
}

Awaitable<void> ConnectionIo::Linger(env::Duration longest) {
  // A client that goes on sending for longer than this, or sends more, gets its reset.
  constexpr uint64_t kMostBytes = 64 << 20;
  error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  SetDeadline(longest);
  uint64_t total = 0;
  while (!error && total < kMostBytes && !timed_out_) {
    buffer_.clear();
    total += co_await socket_.async_read_some(buffer_.prepare(kReadBytes),
                                              asio::redirect_error(asio::use_awaitable, error));
  }
  Close();
}

void ConnectionIo::Cancel() {
  error_code ignored;
  socket_.cancel(ignored);
}

void ConnectionIo::Close() {
  error_code ignored;
  timer_.cancel();
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace sarissa::server
