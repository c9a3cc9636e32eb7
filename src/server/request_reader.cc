#include "server/request_reader.h"

#include <arrow/result.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <cctype>

#include "server/error_envelope.h"

namespace sarissa::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

// An unread body up to this size is read away; a longer one costs the connection.
constexpr uint64_t kDiscardBytes = 64 << 10;
// A chunk header (with its extensions) or the trailers must fit.
constexpr size_t kMaxChunkHeader = 32 << 10;

std::string LowerCase(boost::beast::string_view text) {
  std::string lower(text.data(), text.size());
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

}  // namespace

RequestReader::RequestReader(ConnectionIo& io, const ServerOptions& options)
    : io_(io), options_(options), limit_(options.small_body_limit) {
  parser_.header_limit(options.header_limit);
  parser_.body_limit(boost::none);
}

Awaitable<bool> RequestReader::ReadHead(Request& request) {
  io_.SetDeadline(options_.header_timeout);
  for (;;) {
    const error_code error = ParseHead();
    if (!error) break;
    if (error != http::error::need_more) {
      RefuseHead(error);
      FillRequest(request);
      co_return true;
    }
    const IoOutcome outcome = co_await io_.ReadMore();
    if (outcome == IoOutcome::kClosed) co_return false;
    if (outcome == IoOutcome::kTimedOut) {
      failure_ = ErrorResponse(408, "TIMEOUT", "the request head did not arrive in time");
      co_return true;
    }
  }
  http_1_0_ = parser_.get().version() < 11;
  keep_alive_ = parser_.keep_alive();
  FillRequest(request);
  CheckHead();
  co_return true;
}

error_code RequestReader::ParseHead() {
  // Empty lines before a request are left-overs of a sloppy client's last body.
  while (!parser_.got_some() && io_.buffer().size() > 0) {
    const char first = *static_cast<const char*>(io_.buffer().cdata().data());
    if (first != '\r' && first != '\n') break;
    io_.buffer().consume(1);
  }
  error_code error;
  while (!error && !parser_.is_header_done()) {
    if (io_.buffer().size() == 0) return http::error::need_more;
    io_.buffer().consume(parser_.put(io_.buffer().cdata(), error));
  }
  return error;
}

void RequestReader::RefuseHead(const error_code& error) {
  if (error == http::error::header_limit) {
    failure_ = parser_.get().target().empty()
                   ? ErrorResponse(414, "INVALID_REQUEST", "the request target is too long")
                   : ErrorResponse(431, "INVALID_REQUEST", "the request header is too large");
  } else if (error == http::error::bad_version) {
    failure_ = ErrorResponse(505, "INVALID_REQUEST", "only HTTP/1.0 and HTTP/1.1 are spoken here");
  } else {
    failure_ = ErrorResponse(400, "INVALID_REQUEST",
                             fmt::format("malformed request: {}", error.message()));
  }
}

void RequestReader::FillRequest(Request& request) const {
  const auto& head = parser_.get();
  request.method_text = std::string(head.method_string());
  request.method = ParseMethod(request.method_text);
  request.target = std::string(head.target());
  for (const auto& field : head) {
    request.headers.emplace_back(LowerCase(field.name_string()), std::string(field.value()));
  }
}

void RequestReader::CheckHead() {
  const auto& head = parser_.get();
  chunked_ = parser_.chunked();
  remaining_ = chunked_ ? 0 : parser_.content_length().value_or(0);
  if (head.target().size() > options_.target_limit) {
    failure_ = ErrorResponse(414, "INVALID_REQUEST", "the request target is too long");
    return;
  }
  if (head.count(http::field::host) != 1 && (!http_1_0_ || head.count(http::field::host) > 1)) {
    failure_ = ErrorResponse(400, "INVALID_REQUEST", "the request needs exactly one host header");
    return;
  }
  const size_t codings = head.count(http::field::transfer_encoding);
  if (codings > 0) {
    // Anything that an intermediary may frame in another way is refused.
    if (http_1_0_ || codings > 1 || head.count(http::field::content_length) > 0) {
      failure_ = ErrorResponse(400, "INVALID_REQUEST", "ambiguous body framing");
      return;
    }
    if (!boost::beast::iequals(head[http::field::transfer_encoding], "chunked")) {
      failure_ = ErrorResponse(501, "INVALID_REQUEST", "the only transfer coding is 'chunked'");
      return;
    }
  }
  if (head.count(http::field::expect) == 0) return;
  if (!boost::beast::iequals(head[http::field::expect], "100-continue")) {
    failure_ = ErrorResponse(417, "INVALID_REQUEST", "the only expectation is '100-continue'");
    return;
  }
  expects_continue_ = !http_1_0_ && !body_ended();
}

std::optional<uint64_t> RequestReader::length() const {
  if (chunked_) return std::nullopt;
  return started_ ? remaining_ + total_ : remaining_;
}

bool RequestReader::body_ended() const {
  return chunked_ ? parser_.is_done() : remaining_ == 0;
}

Status RequestReader::Fail(int status, std::string_view code, std::string_view message) {
  failure_ = ErrorResponse(status, code, message);
  return Error(ErrorKind::kInvalid, "{}", message);
}

Status RequestReader::FailRead(IoOutcome outcome) {
  if (outcome == IoOutcome::kTimedOut) {
    timed_out_ = true;
    return Fail(408, "TIMEOUT", "request body idle timeout");
  }
  return Fail(400, "INVALID_REQUEST", "the request body ended early");
}

Awaitable<Status> RequestReader::BeforeFirstRead() {
  started_ = true;
  if (!chunked_ && remaining_ > limit_) {
    co_return Fail(413, "PAYLOAD_TOO_LARGE",
                   fmt::format("the body is larger than {} bytes", limit_));
  }
  if (!expects_continue_) co_return Status::OK();
  expects_continue_ = false;
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  std::vector<asio::const_buffer> line = {asio::const_buffer(kContinue.data(), kContinue.size())};
  const IoOutcome outcome = co_await io_.Write(std::move(line), options_.write_stall_timeout);
  co_return outcome == IoOutcome::kDone ? Status::OK() : FailRead(IoOutcome::kClosed);
}

Awaitable<Result<size_t>> RequestReader::Read(std::span<uint8_t> into) {
  if (failure_.has_value()) co_return Error(ErrorKind::kInvalid, "the request body is broken");
  if (!started_) {
    const Status ready = co_await BeforeFirstRead();
    if (!ready.ok()) co_return ready;
  }
  if (body_ended() || into.empty()) co_return size_t{0};
  // Not a conditional expression: gcc 12 destroys the temporaries of both awaited branches.
  Result<size_t> got = size_t{0};
  if (chunked_) {
    got = co_await ReadChunked(into);
  } else {
    got = co_await ReadFixed(into);
  }
  if (!got.ok()) co_return got;
  total_ += *got;
  if (total_ > limit_) {
    co_return Fail(413, "PAYLOAD_TOO_LARGE",
                   fmt::format("the body is larger than {} bytes", limit_));
  }
  co_return got;
}

Awaitable<Result<size_t>> RequestReader::ReadFixed(std::span<uint8_t> into) {
  const size_t wanted = static_cast<size_t>(std::min<uint64_t>(into.size(), remaining_));
  const size_t buffered = std::min(wanted, io_.buffer().size());
  size_t got = buffered;
  if (buffered > 0) {
    const auto* from = static_cast<const uint8_t*>(io_.buffer().cdata().data());
    std::copy_n(from, buffered, into.begin());
    io_.buffer().consume(buffered);
  } else {
    io_.SetDeadline(options_.body_idle_timeout);
    const IoOutcome outcome = co_await io_.ReadInto(asio::mutable_buffer(into.data(), wanted), got);
    if (outcome != IoOutcome::kDone) co_return FailRead(outcome);
  }
  remaining_ -= got;
  co_return got;
}

Awaitable<Result<size_t>> RequestReader::ReadChunked(std::span<uint8_t> into) {
  parser_.eager(true);
  auto& body = parser_.get().body();
  for (;;) {
    body.data = into.data();
    body.size = into.size();
    error_code error = http::error::need_more;
    if (io_.buffer().size() > 0) io_.buffer().consume(parser_.put(io_.buffer().cdata(), error));
    const size_t got = into.size() - body.size;
    const bool wants_more = error == http::error::need_more || error == http::error::need_buffer;
    if (error && !wants_more) {
      co_return Fail(400, "INVALID_REQUEST",
                     fmt::format("malformed chunked body: {}", error.message()));
    }
    if (got > 0 || parser_.is_done()) co_return got;
    if (error == http::error::need_buffer) continue;
    if (io_.buffer().size() > kMaxChunkHeader) {
      co_return Fail(400, "INVALID_REQUEST", "malformed chunked body: a chunk header is too large");
    }
    io_.SetDeadline(options_.body_idle_timeout);
    const IoOutcome outcome = co_await io_.ReadMore();
    if (outcome != IoOutcome::kDone) co_return FailRead(outcome);
  }
}

Awaitable<bool> RequestReader::Discard() {
  if (body_ended()) co_return true;
  // A client that waits for leave to send will not send; where its next request starts is not
  // known.
  if (failure_.has_value() || expects_continue_ || chunked_ || remaining_ > kDiscardBytes) {
    co_return false;
  }
  limit_ = UINT64_MAX;
  std::array<uint8_t, 4096> away{};
  while (!body_ended()) {
    const Result<size_t> got = co_await Read(away);
    if (!got.ok()) co_return false;
  }
  co_return true;
}

}  // namespace sarissa::server
