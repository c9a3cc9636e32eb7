// The `role` column while it is built: int8 codes into the distinct roles in order of first use. A
// batch has the roles it uses; the limit counts the distinct roles of the whole request. One thread
// at a time.
#pragma once

#include <arrow/array/array_base.h>
#include <arrow/array/builder_primitive.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace sarissa::rollout {

// What an int8 code can count.
inline constexpr size_t kMaxRoles = 128;

class RoleDictionary {
 public:
  Status Append(std::string_view role);
  // The array of the rows since the last Finish.
  Result<std::shared_ptr<arrow::Array>> Finish();

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Entry {
    int8_t code;
    uint64_t batch;  // the code counts in this batch only
  };

  int8_t NewCode(std::string_view role);

  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
  std::vector<std::string> values_;  // of the current batch, by code
  uint64_t batch_ = 0;
  arrow::Int8Builder codes_;
};

}  // namespace sarissa::rollout
