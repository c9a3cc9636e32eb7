// Reads one request of a connection: its head, then its body as the handler asks for it. Beast
// parses the head and chunked bodies; a body with a length is read straight into the handler's
// buffer.
//
// Used by the connection's coroutine only.
#pragma once

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cstdint>
#include <optional>

#include "server/connection_io.h"
#include "server/http_message.h"
#include "server/options.h"

namespace sarissa::server {

class RequestReader final : public BodyReader {
 public:
  // Both outlive it.
  RequestReader(ConnectionIo& io, const ServerOptions& options);

  // Reads the head, of which at least one byte is there or will come in time. False when the
  // connection ended. When the head is refused, failure() has the answer.
  Awaitable<bool> ReadHead(Request& request);

  std::optional<uint64_t> length() const override;
  void set_limit(uint64_t bytes) override { limit_ = bytes; }
  Awaitable<Result<size_t>> Read(std::span<uint8_t> into) override;

  // Reads what is left of a short body, so that the next request can follow; false when the
  // connection has to close.
  Awaitable<bool> Discard();

  // The answer to a request that could not be read, whatever its handler says.
  std::optional<Response>& failure() { return failure_; }
  bool timed_out() const { return timed_out_; }
  bool keep_alive() const { return keep_alive_; }
  bool http_1_0() const { return http_1_0_; }
  bool body_ended() const;

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;

  // Parses what is buffered of the head; the error is need_more when it is not all there.
  boost::system::error_code ParseHead();
  void RefuseHead(const boost::system::error_code& error);
  // Checks what Beast leaves to its user.
  void CheckHead();
  void FillRequest(Request& request) const;

  Status Fail(int status, std::string_view code, std::string_view message);
  Awaitable<Status> BeforeFirstRead();
  Awaitable<Result<size_t>> ReadFixed(std::span<uint8_t> into);
  Awaitable<Result<size_t>> ReadChunked(std::span<uint8_t> into);
  Status FailRead(IoOutcome outcome);

  ConnectionIo& io_;
  const ServerOptions& options_;
  Parser parser_;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  bool chunked_ = false;
  bool expects_continue_ = false;
  bool started_ = false;
  uint64_t remaining_ = 0;  // of a body with a length
  uint64_t total_ = 0;
  uint64_t limit_;
  bool timed_out_ = false;
  std::optional<Response> failure_;
};

}  // namespace sarissa::server
