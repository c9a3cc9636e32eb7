// Writes a string as JSON: quotes, backslashes and control characters escaped, everything else as
// it is. Thread safe.
#pragma once

#include <string>
#include <string_view>

namespace sarissa::rollout {

// Appends `text` with its quotes. Bytes that are not UTF-8 come out as U+FFFD, so the answer is
// always valid JSON.
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace sarissa::rollout
