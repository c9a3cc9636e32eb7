// The status line and headers of a response, as bytes. Pure.
#pragma once

#include <string>
#include <string_view>

#include "env/clock.h"
#include "server/http_message.h"

namespace sarissa::server {

enum class Framing {
  kNone,        // 204: no body, no length
  kLength,      // content-length
  kChunked,     // transfer-encoding: chunked
  kUntilClose,  // to a client that does not know chunks
};

struct HeadFields {
  Framing framing = Framing::kLength;
  uint64_t length = 0;
  bool keep_alive = true;
  bool http_1_0 = false;
  std::string_view request_id;
  env::WallTime now;
};

std::string FormatHead(const Response& response, const HeadFields& fields);

std::string_view ReasonPhrase(int status);

}  // namespace sarissa::server
