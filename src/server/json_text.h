// Small pieces of JSON text for answers and log lines. Thread safe.
#pragma once

#include <string>
#include <string_view>

namespace sarissa::server {

// Appends `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so the result is always valid JSON.
void AppendJsonString(std::string_view text, std::string& out);

// True when `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool IsUtf8(std::string_view text);

}  // namespace sarissa::server
