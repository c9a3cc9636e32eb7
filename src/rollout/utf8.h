// Whether bytes are UTF-8 (no overlong forms, no surrogates). Pure functions, thread safe.
#pragma once

#include <string>
#include <string_view>

namespace sarissa::rollout {

bool IsUtf8(std::string_view text);

// `text` with every byte that is not part of a valid sequence replaced by U+FFFD.
std::string ReplaceInvalidUtf8(std::string_view text);

}  // namespace sarissa::rollout
