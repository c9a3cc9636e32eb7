// Typed JSON values: integers in a range, float32, arrays of them. kInvalid says what was expected
// or which range was left; the caller adds the place. Thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rollout/json_cursor.h"

namespace sarissa::rollout {

Status ReadJsonInt(JsonCursor& cursor, int64_t low, int64_t high, int64_t& out);
Status ReadJsonFloat(JsonCursor& cursor, float& out);
Status ReadJsonBool(JsonCursor& cursor, bool& out);
Status ReadJsonText(JsonCursor& cursor, std::string& scratch, std::string_view& out);

// Arrays replace `out`. Errors name the element: "[12]: expected an integer".
Status ReadJsonInts(JsonCursor& cursor, std::vector<int32_t>& out);
Status ReadJsonInts(JsonCursor& cursor, std::vector<int8_t>& out);
Status ReadJsonFloats(JsonCursor& cursor, std::vector<float>& out);

// kInvalid with the cursor's reason.
Status JsonError(const JsonCursor& cursor);
// "expected <what>, got <kind of the next value>"; or why the next value is not JSON.
Status UnexpectedJson(JsonCursor& cursor, std::string_view what);

}  // namespace sarissa::rollout
