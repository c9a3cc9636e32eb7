// A request and a response as the routes see them: no sockets, no Beast.
#pragma once

#include <arrow/buffer.h>

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sarissa::server {

enum class Method { kGet, kHead, kPost, kDelete, kOther };

Method ParseMethod(std::string_view text);

using Headers = std::vector<std::pair<std::string, std::string>>;

// The body of one request, read while the handler runs. Used by that handler's coroutine only.
class BodyReader {
 public:
  virtual ~BodyReader() = default;
  // Content-Length, 0 without a body; unset for a chunked body.
  virtual std::optional<uint64_t> length() const = 0;
  // A body that turns out longer fails the read; the connection then answers 413.
  virtual void set_limit(uint64_t bytes) = 0;
  // Fills `into` from its start with at least one byte; 0 at the end. After an error the connection
  // answers for the handler (400, 408, 413), which only has to return.
  virtual boost::asio::awaitable<Result<size_t>> Read(std::span<uint8_t> into) = 0;
};

struct Request {
  Method method = Method::kOther;
  std::string method_text;
  std::string target;               // origin form, as it came
  std::string query;                // after the '?', raw
  Headers headers;                  // names in lower case
  std::string id;                   // for logs and the x-request-id header
  std::vector<std::string> params;  // decoded path parameters, in the order of the route's template
  BodyReader* body = nullptr;

  // Null when the header is absent; the first when it is repeated.
  const std::string* Header(std::string_view name) const;
};

// The body of a streamed response, pulled by the connection: one piece at a time, the next one only
// when the last is written.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // Null at the end. An error closes the connection, so that the client sees a broken body and not
  // a short one.
  virtual boost::asio::awaitable<Result<std::shared_ptr<arrow::Buffer>>> Next() = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers;
  std::string body;
  // Used in place of `body` when set.
  std::unique_ptr<BodySource> source;
  // Size of what `source` brings; unset means chunked.
  std::optional<uint64_t> source_length;
  // Close the connection after this response.
  bool close = false;
};

Response JsonResponse(int status, std::string body);

}  // namespace sarissa::server
