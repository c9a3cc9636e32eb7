// A decorator that makes any store fail on purpose. Rules are tried in the order they were added;
// the first that applies to a call acts. Thread safe; rules may be added while calls run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "env/clock.h"
#include "object_store/object_store.h"
#include "object_store/store_operation.h"

namespace sarissa::object_store {

enum class FaultAction {
  kFail,   // the call does nothing and returns `status`
  kDelay,  // `delay` passes (see FaultStore::Sleep), then the call goes on
  // The torn actions apply to kFinish only, and to writers that were created after the rule was
  // added.
  kTorn,  // the first `torn_bytes` bytes are written and never become visible; returns `status`
  kTornVisible,  // an object of the first `torn_bytes` bytes appears, as in a store that lies about
                 // atomicity; returns `status`, also when it is OK
  kLandedAnswerLost,     // the call is done, `status` is returned
  kNotLandedAnswerLost,  // the call is not done, `status` is returned
};

struct FaultRule {
  std::optional<StoreOperation> operation = {};  // none: any
  std::string name_glob =
      "*";           // over the full name; '*' is any run of characters, '/' too; '?' is one
  uint64_t nth = 0;  // only the n-th matching call, from 1; 0: every one
  FaultAction action = FaultAction::kFail;
  // OK stands for the action's usual error (except for kTornVisible): kUnavailable, or
  // kOutcomeUnknown where an answer is lost.
  Status status = {};
  env::Duration delay{0};
  uint64_t torn_bytes = 0;
};

class FaultStore final : public ObjectStore {
 public:
  // Lets time pass: real or simulated. Called without locks.
  using Sleep = std::function<void(env::Duration)>;
  using RuleId = uint64_t;

  // `inner` is borrowed and outlives the store and its writers and readers.
  explicit FaultStore(ObjectStore& inner, Sleep sleep = nullptr);

  RuleId AddRule(FaultRule rule);
  void RemoveRule(RuleId rule);
  void ClearRules();
  // Calls of one kind so far, failed ones too.
  uint64_t calls(StoreOperation operation) const;
  // Calls that a rule matched so far (also where another n-th was meant); 0 once it is removed.
  uint64_t matches(RuleId rule) const;

  Result<std::unique_ptr<ObjectWriter>> Create(const std::string& name) override;
  Result<std::shared_ptr<ObjectReader>> Open(const std::string& name) override;
  Result<ObjectInfo> Head(const std::string& name) override;
  Result<Listing> List(const std::string& prefix, const ListOptions& options) override;
  Status Delete(const std::string& name) override;
  Status DeletePrefix(const std::string& prefix) override;

 private:
  friend class FaultWriter;
  friend class FaultReader;
  class Rules;

  ObjectStore& inner_;
  // Shared with writers and readers, which may outlive the store.
  std::shared_ptr<Rules> rules_;
};

}  // namespace sarissa::object_store
