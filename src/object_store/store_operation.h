// What can be asked of a store, as faults and metrics name it.
#pragma once

#include <cstddef>
#include <string_view>

namespace sarissa::object_store {

enum class StoreOperation {
  kCreate,
  kAppend,
  kFinish,
  kOpen,
  kRead,
  kHead,
  kList,
  kDelete,
  kDeletePrefix
};
inline constexpr size_t kStoreOperations = 9;

constexpr std::string_view StoreOperationName(StoreOperation operation) {
  switch (operation) {
    case StoreOperation::kCreate:
      return "create";
    case StoreOperation::kAppend:
      return "append";
    case StoreOperation::kFinish:
      return "finish";
    case StoreOperation::kOpen:
      return "open";
    case StoreOperation::kRead:
      return "read";
    case StoreOperation::kHead:
      return "head";
    case StoreOperation::kList:
      return "list";
    case StoreOperation::kDelete:
      return "delete";
    case StoreOperation::kDeletePrefix:
      return "delete_prefix";
  }
  return "unknown";
}

}  // namespace sarissa::object_store
