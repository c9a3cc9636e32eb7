// The store as one writer of a duel sees it: every call that matters to the others waits at the
// turnstile. Generations and the hint pass freely, nobody else reads them during a duel.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "object_store/object_store.h"
#include "tests/crash/duel_schedule.h"

namespace sarissa::duel {

// Whose put of a name landed, in order. Names under the turnstile only; a removal starts anew.
using Authors = std::map<std::string, std::vector<int>>;

class DuelStore final : public object_store::ObjectStore {
 public:
  // `die` ends the calling fiber's process; it does not return when called in one of its fibers.
  DuelStore(object_store::ObjectStore& inner, Turnstile& turnstile, int writer, Authors& authors,
            std::function<void()> die)
      : inner_(inner),
        turnstile_(turnstile),
        writer_(writer),
        authors_(authors),
        die_(std::move(die)) {}

  Result<std::unique_ptr<object_store::ObjectWriter>> Create(const std::string& name) override {
    ARROW_ASSIGN_OR_RAISE(auto writer, inner_.Create(name));
    return std::make_unique<Writer>(*this, name, std::move(writer));
  }
  Result<std::shared_ptr<object_store::ObjectReader>> Open(const std::string& name) override {
    Read(object_store::StoreOperation::kOpen, name);
    return inner_.Open(name);
  }
  Result<object_store::ObjectInfo> Head(const std::string& name) override {
    Read(object_store::StoreOperation::kHead, name);
    return inner_.Head(name);
  }
  Result<object_store::Listing> List(const std::string& prefix,
                                     const object_store::ListOptions& options) override {
    Read(object_store::StoreOperation::kList, prefix);
    return inner_.List(prefix, options);
  }
  Status Delete(const std::string& name) override {
    return Change({object_store::StoreOperation::kDelete, name}, [&] {
      authors_.erase(name);
      return inner_.Delete(name);
    });
  }
  Status DeletePrefix(const std::string& prefix) override { return inner_.DeletePrefix(prefix); }

 private:
  class Writer final : public object_store::ObjectWriter {
   public:
    Writer(DuelStore& store, std::string name, std::unique_ptr<object_store::ObjectWriter> inner)
        : store_(store), name_(std::move(name)), inner_(std::move(inner)) {}
    Status Append(std::span<const uint8_t> data) override { return inner_->Append(data); }
    Status AppendBuffer(const arrow::Buffer& buffer) override {
      return inner_->AppendBuffer(buffer);
    }
    uint64_t size() const override { return inner_->size(); }
    Status Finish(object_store::PutMode mode) override {
      return store_.Finish(name_, *inner_, mode);
    }

   private:
    DuelStore& store_;
    const std::string name_;
    const std::unique_ptr<object_store::ObjectWriter> inner_;
  };

  static bool Shared(const std::string& name) {
    return name.find("_gen_") == std::string::npos && !name.ends_with(".json");
  }

  Verdict Pass(object_store::StoreOperation operation, const std::string& name) {
    if (!Shared(name)) return Verdict::kGo;
    const Verdict verdict = turnstile_.Pass(writer_, {operation, name});
    if (verdict == Verdict::kKillBefore) die_();
    return verdict;
  }
  void Read(object_store::StoreOperation operation, const std::string& name) {
    Pass(operation, name);
  }
  Status Finish(const std::string& name, object_store::ObjectWriter& inner,
                object_store::PutMode mode) {
    return Change({object_store::StoreOperation::kFinish, name}, [&] {
      const Status finished = inner.Finish(mode);
      // Only a clean-up overwrites, and only the first log entry, with its guard.
      const bool guard = mode == object_store::PutMode::kOverwrite &&
                         name.ends_with("/wal/1" + std::string(63, '0') + ".arrow");
      if (guard) authors_.erase(name);
      if (finished.ok() && Shared(name)) authors_[name].push_back(writer_);
      return finished;
    });
  }
  Status Change(const StoreCall& call, const std::function<Status()>& change) {
    const Verdict verdict = Pass(call.operation, call.name);
    const Status lost = Error(ErrorKind::kOutcomeUnknown, "'{}': no answer", call.name);
    if (verdict == Verdict::kNotLandedAnswerLost) return lost;
    const Status changed = change();
    if (verdict == Verdict::kKillAfter) die_();
    return verdict == Verdict::kLandedAnswerLost ? lost : changed;
  }

  object_store::ObjectStore& inner_;
  Turnstile& turnstile_;
  const int writer_;
  Authors& authors_;
  const std::function<void()> die_;
};

}  // namespace sarissa::duel
