#include "object_store/fault_store.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sarissa::object_store {
namespace {

bool GlobMatches(std::string_view glob, std::string_view text) {
  size_t at = 0;
  size_t in_glob = 0;
  // Where to go on after the last '*' has taken one character more.
  size_t retry_text = 0;
  size_t retry_glob = std::string_view::npos;
  while (at < text.size()) {
    if (in_glob < glob.size() && glob[in_glob] == '*') {
      retry_glob = ++in_glob;
      retry_text = at;
    } else if (in_glob < glob.size() && (glob[in_glob] == '?' || glob[in_glob] == text[at])) {
      ++in_glob;
      ++at;
    } else if (retry_glob != std::string_view::npos) {
      in_glob = retry_glob;
      at = ++retry_text;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', in_glob) == std::string_view::npos;
}

bool IsTorn(FaultAction action) {
  return action == FaultAction::kTorn || action == FaultAction::kTornVisible;
}

Status AnswerOf(const FaultRule& rule, StoreOperation operation, const std::string& name) {
  if (!rule.status.ok() || rule.action == FaultAction::kTornVisible) return rule.status;
  const bool answer_lost = rule.action == FaultAction::kLandedAnswerLost ||
                           rule.action == FaultAction::kNotLandedAnswerLost;
  return Error(answer_lost ? ErrorKind::kOutcomeUnknown : ErrorKind::kUnavailable,
               "{} '{}': injected fault", StoreOperationName(operation), name);
}

}  // namespace

class FaultStore::Rules {
 public:
  explicit Rules(Sleep sleep) : sleep_(std::move(sleep)) {}

  RuleId Add(FaultRule rule) {
    const std::scoped_lock lock(mutex_);
    rules_[++last_rule_].rule = std::move(rule);
    return last_rule_;
  }

  void Remove(RuleId rule) {
    const std::scoped_lock lock(mutex_);
    rules_.erase(rule);
  }

  void Clear() {
    const std::scoped_lock lock(mutex_);
    rules_.clear();
  }

  uint64_t calls(StoreOperation operation) const {
    const std::scoped_lock lock(mutex_);
    return calls_[static_cast<size_t>(operation)];
  }

  uint64_t matches(RuleId rule) const {
    const std::scoped_lock lock(mutex_);
    const auto found = rules_.find(rule);
    return found == rules_.end() ? 0 : found->second.matches;
  }

  bool MayTear() const {
    const std::scoped_lock lock(mutex_);
    return std::any_of(rules_.begin(), rules_.end(),
                       [](const auto& entry) { return IsTorn(entry.second.rule.action); });
  }

  // Counts the call and gives the rule that acts on it.
  std::optional<FaultRule> Match(StoreOperation operation, const std::string& name) {
    const std::scoped_lock lock(mutex_);
    ++calls_[static_cast<size_t>(operation)];
    std::optional<FaultRule> acting;
    for (auto& [id, counted] : rules_) {
      const FaultRule& rule = counted.rule;
      if (rule.operation.value_or(operation) != operation) continue;
      if (IsTorn(rule.action) && operation != StoreOperation::kFinish) continue;
      if (!GlobMatches(rule.name_glob, name)) continue;
      ++counted.matches;
      const bool applies = rule.nth == 0 || rule.nth == counted.matches;
      if (applies && !acting.has_value()) acting = rule;
    }
    return acting;
  }

  void Delay(const FaultRule& rule) const {
    if (sleep_) sleep_(rule.delay);
  }

  // Does `call` the way `rule` wants it; the torn actions are the writer's.
  template <typename Call>
  auto Act(const FaultRule& rule, StoreOperation operation, const std::string& name,
           const Call& call) const -> decltype(call()) {
    if (rule.action == FaultAction::kDelay) {
      Delay(rule);
      return call();
    }
    if (rule.action == FaultAction::kLandedAnswerLost) {
      auto result = call();
      if (!result.ok()) return result;
    }
    return AnswerOf(rule, operation, name);
  }

  template <typename Call>
  auto Run(StoreOperation operation, const std::string& name, const Call& call)
      -> decltype(call()) {
    const std::optional<FaultRule> rule = Match(operation, name);
    return rule.has_value() ? Act(*rule, operation, name, call) : call();
  }

 private:
  struct Counted {
    FaultRule rule;
    uint64_t matches = 0;
  };

  const Sleep sleep_;
  mutable std::mutex mutex_;  // leaf
  RuleId last_rule_ = 0;
  std::map<RuleId, Counted> rules_;
  std::array<uint64_t, kStoreOperations> calls_{};
};

class FaultWriter final : public ObjectWriter {
 public:
  FaultWriter(ObjectStore& store, std::shared_ptr<FaultStore::Rules> rules, std::string name,
              std::unique_ptr<ObjectWriter> inner)
      : store_(store),
        rules_(std::move(rules)),
        name_(std::move(name)),
        inner_(std::move(inner)),
        keep_bytes_(rules_->MayTear()) {}

  Status Append(std::span<const uint8_t> data) override {
    return rules_->Run(StoreOperation::kAppend, name_, [&] {
      if (keep_bytes_) bytes_.insert(bytes_.end(), data.begin(), data.end());
      return inner_->Append(data);
    });
  }

  uint64_t size() const override { return inner_->size(); }

  Status Finish(PutMode mode) override {
    const std::optional<FaultRule> rule = rules_->Match(StoreOperation::kFinish, name_);
    const auto finish = [&] { return inner_->Finish(mode); };
    if (!rule.has_value()) return finish();
    if (!IsTorn(rule->action)) return rules_->Act(*rule, StoreOperation::kFinish, name_, finish);
    ARROW_RETURN_NOT_OK(Tear(*rule, mode));
    return AnswerOf(*rule, StoreOperation::kFinish, name_);
  }

 private:
  Status Tear(const FaultRule& rule, PutMode mode) const {
    ARROW_ASSIGN_OR_RAISE(const std::unique_ptr<ObjectWriter> torn, store_.Create(name_));
    ARROW_RETURN_NOT_OK(
        torn->Append({bytes_.data(), std::min<size_t>(rule.torn_bytes, bytes_.size())}));
    return rule.action == FaultAction::kTornVisible ? torn->Finish(mode) : Status::OK();
  }

  ObjectStore& store_;
  const std::shared_ptr<FaultStore::Rules> rules_;
  const std::string name_;
  const std::unique_ptr<ObjectWriter> inner_;
  const bool keep_bytes_;
  std::vector<uint8_t> bytes_;
};

class FaultReader final : public ObjectReader {
 public:
  FaultReader(std::shared_ptr<FaultStore::Rules> rules, std::shared_ptr<ObjectReader> inner)
      : rules_(std::move(rules)), inner_(std::move(inner)) {}

  uint64_t size() const override { return inner_->size(); }
  const std::string& name() const override { return inner_->name(); }
  Result<std::shared_ptr<arrow::Buffer>> ReadRange(uint64_t offset,
                                                   uint64_t length) const override {
    return rules_->Run(StoreOperation::kRead, inner_->name(),
                       [&] { return inner_->ReadRange(offset, length); });
  }

 private:
  const std::shared_ptr<FaultStore::Rules> rules_;
  const std::shared_ptr<ObjectReader> inner_;
};

FaultStore::FaultStore(ObjectStore& inner, Sleep sleep)
    : inner_(inner), rules_(std::make_shared<Rules>(std::move(sleep))) {}

FaultStore::RuleId FaultStore::AddRule(FaultRule rule) {
  return rules_->Add(std::move(rule));
}

void FaultStore::RemoveRule(RuleId rule) {
  rules_->Remove(rule);
}

void FaultStore::ClearRules() {
  rules_->Clear();
}

uint64_t FaultStore::calls(StoreOperation operation) const {
  return rules_->calls(operation);
}

uint64_t FaultStore::matches(RuleId rule) const {
  return rules_->matches(rule);
}

Result<std::unique_ptr<ObjectWriter>> FaultStore::Create(const std::string& name) {
  return rules_->Run(StoreOperation::kCreate, name, [&]() -> Result<std::unique_ptr<ObjectWriter>> {
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<ObjectWriter> inner, inner_.Create(name));
    return std::make_unique<FaultWriter>(inner_, rules_, name, std::move(inner));
  });
}

Result<std::shared_ptr<ObjectReader>> FaultStore::Open(const std::string& name) {
  return rules_->Run(StoreOperation::kOpen, name, [&]() -> Result<std::shared_ptr<ObjectReader>> {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<ObjectReader> inner, inner_.Open(name));
    return std::make_shared<FaultReader>(rules_, std::move(inner));
  });
}

Result<ObjectInfo> FaultStore::Head(const std::string& name) {
  return rules_->Run(StoreOperation::kHead, name, [&] { return inner_.Head(name); });
}

Result<Listing> FaultStore::List(const std::string& prefix, const ListOptions& options) {
  return rules_->Run(StoreOperation::kList, prefix, [&] { return inner_.List(prefix, options); });
}

Status FaultStore::Delete(const std::string& name) {
  return rules_->Run(StoreOperation::kDelete, name, [&] { return inner_.Delete(name); });
}

Status FaultStore::DeletePrefix(const std::string& prefix) {
  return rules_->Run(StoreOperation::kDeletePrefix, prefix,
                     [&] { return inner_.DeletePrefix(prefix); });
}

}  // namespace sarissa::object_store
