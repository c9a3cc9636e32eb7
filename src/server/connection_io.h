// The bytes of one connection: a socket, what was read of it and not used yet, and the deadline of
// the current operation.
//
// Used by the connection's coroutine only, whose executor (a strand) is the socket's.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <memory>
#include <vector>

#include "env/clock.h"
#include "server/await.h"

namespace sarissa::server {

enum class IoOutcome { kDone, kClosed, kTimedOut };

class ConnectionIo : public std::enable_shared_from_this<ConnectionIo> {
 public:
  // `clock` outlives it.
  ConnectionIo(boost::asio::ip::tcp::socket socket, const env::Clock& clock);

  // Deadline of the operations that follow, until it is set again.
  void SetDeadline(env::Duration from_now);

  // Reads at least one byte into the buffer.
  Awaitable<IoOutcome> ReadMore();
  // Reads at least one byte straight into `into`.
  Awaitable<IoOutcome> ReadInto(boost::asio::mutable_buffer into, size_t& got);
  // Writes everything; every byte that the client takes renews `stall_timeout`.
  Awaitable<IoOutcome> Write(std::vector<boost::asio::const_buffer> buffers,
                             env::Duration stall_timeout);
  // Closes so that the client can still read the answer while it is sending: a reset would throw it
  // away.
  Awaitable<void> Linger(env::Duration longest);

  // Makes the operation that is waiting end as closed.
  void Cancel();
  void Close();

  boost::beast::flat_buffer& buffer() { return buffer_; }
  boost::asio::ip::tcp::socket::executor_type executor() { return socket_.get_executor(); }

 private:
  static constexpr size_t kReadBytes = 64 << 10;

  void StartTimer();
  void OnTimer();
  IoOutcome Outcome(const boost::system::error_code& error) const;

  boost::asio::ip::tcp::socket socket_;
  const env::Clock& clock_;
  boost::beast::flat_buffer buffer_;
  // The timer runs at least as early as the deadline: a later deadline is noticed when it fires, so
  // that the usual case, a deadline that only moves back, costs nothing.
  boost::asio::steady_timer timer_;
  bool timer_running_ = false;
  env::MonotonicTime deadline_ = env::MonotonicTime::max();
  bool timed_out_ = false;
};

}  // namespace sarissa::server
