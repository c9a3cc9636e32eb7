// Float32 from and to JSON number text. Thread safe.
#pragma once

#include <string>
#include <string_view>

namespace sarissa::rollout {

// The float32 nearest to a JSON number (ties to even), rounded once from the decimal text. False if
// it is beyond the largest float32. Values too small for a denormal become a zero of the same sign.
// `token` must be a valid JSON number.
bool ParseFloat32(std::string_view token, float& out);

// Reads the number at `at` (at most up to `end`) in one pass: the position after it, or null if it
// is not a plain number that the fast way can round; the caller then takes the slow way, which also
// finds the error.
const char* ParseFloat32Fast(const char* at, const char* end, float& out);

// The shortest text that reads back as the same float32, always with a fraction or an exponent
// ("0.1", "1.0", "1e+16"); "null" for NaN and infinities.
void AppendFloat32(float value, std::string& out);

}  // namespace sarissa::rollout
