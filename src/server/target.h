// The path of a request target: split on '/', each segment percent-decoded once. Nothing is merged
// or resolved: "//" has an empty segment, ".." is a segment like any other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sarissa::server {

struct Target {
  std::vector<std::string> segments;  // after the leading '/'
  std::string query;                  // raw, without the '?'
};

// Takes the origin form ("/a/b?c") and the absolute form ("http://host/a/b?c"). kInvalid for
// anything else, for a bad percent sequence and for a segment that is not UTF-8.
Result<Target> ParseTarget(std::string_view target);

// Decodes %XX; kInvalid when a '%' is not followed by two hex digits.
Result<std::string> PercentDecode(std::string_view text);

}  // namespace sarissa::server
