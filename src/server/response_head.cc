#include "server/response_head.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <iterator>

namespace sarissa::server {

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Unknown";
  }
}

std::string FormatHead(const Response& response, const HeadFields& fields) {
  std::string head;
  head.reserve(256);
  const auto out = std::back_inserter(head);
  // An HTTP/1.1 server says so to every client; the framing is what an older client needs.
  fmt::format_to(out, "HTTP/1.1 {} {}\r\n", response.status, ReasonPhrase(response.status));
  const std::time_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(fields.now.time_since_epoch()).count();
  fmt::format_to(out, "date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n", fmt::gmtime(seconds));
  if (!response.content_type.empty()) {
    fmt::format_to(out, "content-type: {}\r\n", response.content_type);
  }
  if (fields.framing == Framing::kLength) {
    fmt::format_to(out, "content-length: {}\r\n", fields.length);
  } else if (fields.framing == Framing::kChunked) {
    head += "transfer-encoding: chunked\r\n";
  }
  if (!fields.keep_alive) {
    head += "connection: close\r\n";
  } else if (fields.http_1_0) {
    head += "connection: keep-alive\r\n";
  }
  if (!fields.request_id.empty()) fmt::format_to(out, "x-request-id: {}\r\n", fields.request_id);
  for (const auto& [name, value] : response.headers) {
    fmt::format_to(out, "{}: {}\r\n", name, value);
  }
  head += "\r\n";
  return head;
}

}  // namespace sarissa::server
