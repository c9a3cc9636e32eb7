#include "server/connection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <chrono>

#include "server/error_envelope.h"
#include "server/log.h"
#include "server/request_reader.h"
#include "server/response_head.h"

namespace sarissa::server {
namespace {

namespace asio = boost::asio;

constexpr env::Duration kLongestLinger = std::chrono::seconds(5);

asio::const_buffer BufferOf(std::string_view text) {
  return {text.data(), text.size()};
}

// A caller may bring an id of its own to find its request in the log.
std::string RequestId(const Request& request, env::Random& random) {
  const std::string* given = request.Header("x-request-id");
  const auto legal = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  };
  if (given != nullptr && !given->empty() && given->size() <= 64 &&
      std::all_of(given->begin(), given->end(), legal)) {
    return *given;
  }
  return fmt::format("{:016x}", random.Next());
}

}  // namespace

void Connection::Drain() {
  asio::post(io_->executor(), [self = shared_from_this()] {
    if (self->idle_) self->io_->Cancel();
  });
}

Awaitable<void> Connection::Run() {
  const std::shared_ptr<Connection> self = shared_from_this();
  for (;;) {
    const bool requested = co_await AwaitRequest();
    if (!requested) break;
    const bool more = co_await Serve();
    if (!more) break;
  }
  if (linger_) co_await io_->Linger(kLongestLinger);
  io_->Close();
}

Awaitable<bool> Connection::AwaitRequest() {
  if (io_->buffer().size() > 0) co_return true;
  if (context_.draining.load(std::memory_order_relaxed)) co_return false;
  io_->SetDeadline(context_.options.keep_alive_timeout);
  idle_ = true;
  const IoOutcome outcome = co_await io_->ReadMore();
  idle_ = false;
  co_return outcome == IoOutcome::kDone;
}

Awaitable<bool> Connection::Serve() {
  RequestReader reader(*io_, context_.options);
  Request request;
  const bool arrived = co_await reader.ReadHead(request);
  if (!arrived) co_return false;
  const env::MonotonicTime start = context_.env.clock->Now();
  request.id = RequestId(request, *context_.env.random);
  request.body = &reader;
  std::string_view path;
  Response response;
  if (!reader.failure().has_value()) response = co_await dispatcher_.Handle(request, path);
  if (reader.failure().has_value()) {
    response = std::move(*reader.failure());
    response.close = true;
    if (reader.timed_out()) context_.metrics.body_timeouts.Add();
  }
  bool keep_alive =
      reader.keep_alive() && !response.close && !context_.draining.load(std::memory_order_relaxed);
  if (keep_alive) keep_alive = co_await reader.Discard();
  linger_ = !reader.body_ended() || reader.failure().has_value();
  const int status = response.status;
  const bool complete = co_await Respond(request, reader, response, keep_alive);
  dispatcher_.Finished(request, path, status, start, complete);
  co_return complete&& keep_alive;
}

Awaitable<bool> Connection::Respond(const Request& request, RequestReader& reader,
                                    Response& response, bool keep_alive) {
  HeadFields fields;
  fields.http_1_0 = reader.http_1_0();
  fields.request_id = request.id;
  fields.now = context_.env.clock->WallNow();
  fields.length =
      response.source != nullptr ? response.source_length.value_or(0) : response.body.size();
  if (response.status == 204) {
    fields.framing = Framing::kNone;
  } else if (response.source != nullptr && !response.source_length.has_value()) {
    fields.framing = fields.http_1_0 ? Framing::kUntilClose : Framing::kChunked;
  }
  fields.keep_alive = keep_alive && fields.framing != Framing::kUntilClose;
  std::string head = FormatHead(response, fields);
  const bool bodiless = request.method == Method::kHead || fields.framing == Framing::kNone;
  if (response.source != nullptr && !bodiless) {
    const bool written = co_await WriteStream(*response.source, std::move(head),
                                              fields.framing == Framing::kChunked);
    co_return written&& fields.framing != Framing::kUntilClose;
  }
  std::vector<asio::const_buffer> buffers = {BufferOf(head)};
  if (!bodiless) buffers.push_back(BufferOf(response.body));
  const IoOutcome outcome =
      co_await io_->Write(std::move(buffers), context_.options.write_stall_timeout);
  if (outcome == IoOutcome::kTimedOut) context_.metrics.stalled_responses.Add();
  co_return outcome == IoOutcome::kDone;
}

Awaitable<bool> Connection::WriteStream(BodySource& source, std::string head, bool chunked) {
  for (bool ended = false; !ended;) {
    const Result<std::shared_ptr<arrow::Buffer>> piece = co_await source.Next();
    if (!piece.ok()) {
      LogLine(LogLevel::kError, "response_broken_off").With("error", piece.status().message());
      co_return false;
    }
    ended = *piece == nullptr;
    std::string_view tail;
    if (ended) {
      if (chunked) tail = "0\r\n\r\n";
    } else if (chunked) {
      head += fmt::format("{:x}\r\n", (*piece)->size());
      tail = "\r\n";
    }
    std::vector<asio::const_buffer> buffers = {BufferOf(head)};
    if (!ended) buffers.emplace_back((*piece)->data(), static_cast<size_t>((*piece)->size()));
    buffers.push_back(BufferOf(tail));
    const IoOutcome outcome =
        co_await io_->Write(std::move(buffers), context_.options.write_stall_timeout);
    if (outcome == IoOutcome::kTimedOut) context_.metrics.stalled_responses.Add();
    if (outcome != IoOutcome::kDone) co_return false;
    head.clear();
  }
  co_return true;
}

}  // namespace sarissa::server
