#include "rollout/store_name.h"

#include <algorithm>
#include <cstddef>

namespace sarissa::rollout {
namespace {

constexpr size_t kMaxNameBytes = 128;

bool IsWord(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

Status CheckStoreName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Error(ErrorKind::kInvalid, "invalid store name: must be 1 to {} bytes, got {}",
                 kMaxNameBytes, name.size());
  }
  const bool legal = IsWord(name.front()) && std::all_of(name.begin(), name.end(), [](char c) {
                       return IsWord(c) || c == '.' || c == '-';
                     });
  if (!legal) {
    return Error(ErrorKind::kInvalid, "invalid store name: must match [A-Za-z0-9_][A-Za-z0-9._-]*");
  }
  if (name == "_registry" || name == "_stats") {
    return Error(ErrorKind::kInvalid, "invalid store name: '{}' is reserved", name);
  }
  return Status::OK();
}

}  // namespace sarissa::rollout
