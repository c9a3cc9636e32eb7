// created_at: RFC 3339 text to and from microseconds since the Unix epoch (UTC). Thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sarissa::rollout {

// Date, `T` or space, time, zone (`Z` or an offset below 24 hours, with or without its colon).
// Years outside 0000-9999 carry a sign and up to six digits. Digits beyond microseconds are cut
// off. Second 60 is the second after 59. kInvalid with what is missing or out of range.
Result<int64_t> ParseTimestamp(std::string_view text);

// Whether the time lies in the years that ParseTimestamp takes.
bool IsInYearRange(int64_t micros);

// `YYYY-MM-DDThh:mm:ss[.mmm|.uuuuuu]Z`; years outside 0000-9999 with a sign.
void AppendTimestamp(int64_t micros, std::string& out);

}  // namespace sarissa::rollout
