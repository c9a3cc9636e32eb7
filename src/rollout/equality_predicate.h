// Rows whose columns equal given values, all of them. A null never equals anything. Immutable,
// thread safe.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/predicate.h"

namespace sarissa::rollout {

struct Condition {
  std::string column;
  std::variant<bool, std::string> value;
};

class EqualityPredicate final : public engine::Predicate {
 public:
  explicit EqualityPredicate(std::vector<Condition> conditions);

  const std::vector<std::string>& columns() const override { return columns_; }
  // Text columns may be utf8, large utf8 or a dictionary of these. kUnsupported for any other type;
  // kInternal if a column is not in the batch.
  Status Evaluate(const arrow::RecordBatch& batch, std::vector<uint8_t>& keep) const override;

 private:
  std::vector<Condition> conditions_;
  std::vector<std::string> columns_;
};

}  // namespace sarissa::rollout
