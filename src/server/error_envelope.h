// The one shape of every answer that is not 2xx: {"error":{"code":...,"message":...}}.
#pragma once

#include <string_view>

#include "base/error.h"
#include "server/http_message.h"

namespace sarissa::server {

Response ErrorResponse(int status, std::string_view code, std::string_view message);

// The answer for a failed call: kind to status and code, Retry-After where a retry helps.
Response ErrorResponse(const Status& status);

// The answer when rows were stored but the flush that was asked for failed.
Response DurableNotFlushedResponse(const Status& status);

}  // namespace sarissa::server
