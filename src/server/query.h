// Query strings: form decoding, the numbers of the list route, and the `flush` flag of the append
// route.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sarissa::server {

// Pairs of an application/x-www-form-urlencoded query: '+' is a space, %XX is decoded, a '%' that
// starts nothing stays.
std::vector<std::pair<std::string, std::string>> DecodeForm(std::string_view query);

struct ListQuery {
  std::optional<uint64_t> limit;
  uint64_t offset = 0;
  std::optional<std::string> filters;
};

// kInvalid when limit or offset is not a non-negative integer of 64 bits, or a parameter is
// repeated. Unknown ones are ignored.
Result<ListQuery> ParseListQuery(std::string_view query);

// Which stores, in pages.
struct StoresQuery {
  std::string prefix;
  std::string start_after;  // from the page token
  std::optional<uint64_t> limit;
};

// kInvalid when limit is not a positive integer, page_token is none of ours, or a parameter is
// repeated. Unknown ones are ignored.
Result<StoresQuery> ParseStoresQuery(std::string_view query);
// The token of the page that begins after the store `name`. Opaque to clients.
std::string PageTokenAfter(std::string_view name);

// True when a raw pair is "flush", "flush=true" (any case) or "flush=1"; nothing is
// percent-decoded.
bool WantsFlush(std::string_view query);

}  // namespace sarissa::server
