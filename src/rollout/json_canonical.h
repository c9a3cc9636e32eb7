// The stored form of a `metadata` value: compact JSON, object keys sorted by their UTF-8 bytes at
// every level, of equal keys the last one kept. Numbers keep their exact text, so integers of any
// size and every digit survive. Thread safe.
#pragma once

#include <string>
#include <string_view>

#include "rollout/json_cursor.h"

namespace sarissa::rollout {

// Reads one value and appends its canonical text. False with cursor.error() set if it is not JSON.
bool AppendCanonicalJson(JsonCursor& cursor, std::string& out);

// Whether `text` is exactly one JSON value (and UTF-8).
bool IsJson(std::string_view text);

}  // namespace sarissa::rollout
