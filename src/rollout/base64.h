// RFC 4648 section 4 base64, strict: standard alphabet, padding required, no white space, unused
// bits zero. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace sarissa::rollout {

// Bytes that `text` decodes to. kInvalid if its length or padding is impossible.
Result<size_t> Base64DecodedSize(std::string_view text);

// Decodes into `out`, which holds Base64DecodedSize(text) bytes. kInvalid names the offset of the
// first bad character.
Status DecodeBase64(std::string_view text, uint8_t* out);

}  // namespace sarissa::rollout
