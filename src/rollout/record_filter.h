// The `filters` query parameter of the list route: a JSON object of exact matches, ANDed.
#pragma once

#include <memory>
#include <string_view>

#include "base/error.h"
#include "engine/predicate.h"

namespace sarissa::rollout {

// Keys: rollout_id, problem_id, policy_version, role, artifact_type, dataset, content_type
// (strings; "" means no condition), include_in_training (boolean). Anything else is kInvalid and
// names the key. Null when there is no condition. A null column never matches.
Result<std::shared_ptr<const engine::Predicate>> ParseFilters(std::string_view json);

}  // namespace sarissa::rollout
