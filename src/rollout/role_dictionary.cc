#include "rollout/role_dictionary.h"

#include <arrow/array/array_dict.h>
#include <arrow/array/builder_binary.h>

#include <utility>

namespace sarissa::rollout {

int8_t RoleDictionary::NewCode(std::string_view role) {
  values_.emplace_back(role);
  return static_cast<int8_t>(values_.size() - 1);
}

Status RoleDictionary::Append(std::string_view role) {
  const auto found = entries_.find(role);
  if (found != entries_.end()) {
    Entry& entry = found->second;
    if (entry.batch != batch_) entry = Entry{NewCode(role), batch_};
    return codes_.Append(entry.code);
  }
  if (entries_.size() == kMaxRoles) {
    return Error(ErrorKind::kInvalid, "a store holds at most {} distinct roles", kMaxRoles);
  }
  const Entry entry{NewCode(role), batch_};
  entries_.emplace(std::string(role), entry);
  return codes_.Append(entry.code);
}

Result<std::shared_ptr<arrow::Array>> RoleDictionary::Finish() {
  arrow::StringBuilder builder;
  ARROW_RETURN_NOT_OK(builder.AppendValues(values_));
  ARROW_ASSIGN_OR_RAISE(auto values, builder.Finish());
  ARROW_ASSIGN_OR_RAISE(auto codes, codes_.Finish());
  values_.clear();
  ++batch_;
  // Every code was handed out above, so the checked construction would only count again.
  return std::make_shared<arrow::DictionaryArray>(arrow::dictionary(arrow::int8(), arrow::utf8()),
                                                  std::move(codes), std::move(values));
}

}  // namespace sarissa::rollout
