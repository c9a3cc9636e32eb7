// Names of stores: 1-128 bytes, [A-Za-z0-9_][A-Za-z0-9._-]*, not reserved. The defence against path
// traversal.
#pragma once

#include <string_view>

#include "base/error.h"

namespace sarissa::rollout {

// kInvalid with the rule in the message.
Status CheckStoreName(std::string_view name);

}  // namespace sarissa::rollout
