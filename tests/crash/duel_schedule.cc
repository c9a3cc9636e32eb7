#include "tests/crash/duel_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace sarissa::duel {
namespace {

using object_store::StoreOperation;

// The moments at which the turnstile lets somebody through. Timers of the writers are far shorter.
constexpr env::Duration kTurn = std::chrono::microseconds(1);

bool Touch(const StoreCall& one, const StoreCall& other) {
  if (!one.writes() && !other.writes()) return false;
  if (one.name == other.name) return true;
  const auto lists = [](const StoreCall& list, const StoreCall& put) {
    return list.operation == StoreOperation::kList && put.writes() &&
           put.name.starts_with(list.name);
  };
  return lists(one, other) || lists(other, one);
}

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGo:
      return "";
    case Verdict::kLandedAnswerLost:
      return ", landed, answer lost";
    case Verdict::kNotLandedAnswerLost:
      return ", not landed, answer lost";
    case Verdict::kKillBefore:
      return ", killed before";
    case Verdict::kKillAfter:
      return ", killed after";
  }
  return "?";
}

}  // namespace

std::optional<size_t> EverySchedule::Choose(std::span<const Option> options) {
  if (at_ == path_.size()) {
    Branch branch;
    for (size_t i = 0; i < options.size(); ++i) {
      // Swapping it with the step before gives a schedule that is tried, too.
      const bool redundant =
          options[i].writer < last_writer_ && !Touch(last_call_, *options[i].call);
      if (!redundant) branch.options.push_back(i);
    }
    if (branch.options.empty()) return std::nullopt;
    path_.push_back(std::move(branch));
  }
  const Branch& branch = path_[at_++];
  const size_t choice = branch.options[branch.taken];
  SARISSA_CHECK(choice < options.size(), "two runs of one schedule differ");
  last_writer_ = options[choice].writer;
  last_call_ = *options[choice].call;
  return choice;
}

bool EverySchedule::Next() {
  at_ = 0;
  last_writer_ = -1;
  while (!path_.empty() && path_.back().taken + 1 == path_.back().options.size()) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

std::optional<size_t> RandomSchedule::Choose(std::span<const Option> options) {
  std::vector<size_t> go;
  std::vector<size_t> same;
  std::vector<size_t> faults;
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i].verdict != Verdict::kGo) {
      faults.push_back(i);
      continue;
    }
    go.push_back(i);
    if (options[i].writer == last_writer_) same.push_back(i);
  }
  const std::vector<size_t>* from = &go;
  if (!faults.empty() && random_.Below(16) == 0) {
    from = &faults;
  } else if (!same.empty() && random_.Below(8) < 2 * stay_) {
    from = &same;
  }
  const size_t choice = (*from)[random_.Below(from->size())];
  last_writer_ = options[choice].writer;
  return choice;
}

std::optional<size_t> RecordedSchedule::Choose(std::span<const Option> options) {
  const size_t choice = at_ < choices_.size() ? choices_[at_] : 0;
  ++at_;
  SARISSA_CHECK(choice < options.size(), "choice {} of {}", choice, options.size());
  return choice;
}

// A call that waits; leaves also when its process is killed.
class Turnstile::Place {
 public:
  Place(Turnstile& turnstile, int writer, const StoreCall& call)
      : turnstile_(turnstile), key_(writer, ++turnstile.last_ticket_) {
    turnstile_.waiting_.emplace(key_, call);
  }
  ~Place() { turnstile_.waiting_.erase(key_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  uint64_t ticket() const { return key_.second; }

 private:
  Turnstile& turnstile_;
  const std::pair<int, uint64_t> key_;
};

Verdict Turnstile::Pass(int writer, const StoreCall& call) {
  if (open_ || !scheduler_.InFiber()) return Verdict::kGo;
  const Place place(*this, writer, call);
  for (;;) {
    const auto since_turn = scheduler_.clock().Now().time_since_epoch() % kTurn;
    scheduler_.SleepFor(kTurn - since_turn);
    if (open_) return Verdict::kGo;
    // The first that wakes decides for all: at that moment every other one waits.
    if (decided_ != scheduler_.clock().Now()) Decide();
    if (open_) return Verdict::kGo;
    if (chosen_ == place.ticket()) return verdict_;
  }
}

void Turnstile::Decide() {
  decided_ = scheduler_.clock().Now();
  std::vector<Option> options;
  const auto add = [&](const auto& key, const StoreCall& call, Verdict verdict) {
    options.push_back({key.first, key.second, &call, verdict});
  };
  for (const auto& [key, call] : waiting_) {
    add(key, call, Verdict::kGo);
    if (allowance_.lost_answers > 0 && call.writes()) {
      add(key, call, Verdict::kLandedAnswerLost);
      add(key, call, Verdict::kNotLandedAnswerLost);
    }
    if (allowance_.kills > 0) {
      add(key, call, Verdict::kKillBefore);
      if (call.writes()) add(key, call, Verdict::kKillAfter);
    }
  }
  const std::optional<size_t> choice = chooser_.Choose(options);
  if (!choice) {
    redundant_ = true;
    open_ = true;
    return;
  }
  const Option& taken = options[*choice];
  choices_.push_back(*choice);
  chosen_ = taken.ticket;
  verdict_ = taken.verdict;
  if (verdict_ == Verdict::kLandedAnswerLost || verdict_ == Verdict::kNotLandedAnswerLost)
    --allowance_.lost_answers;
  if (verdict_ == Verdict::kKillBefore || verdict_ == Verdict::kKillAfter) --allowance_.kills;
  passed_.push_back({taken.writer, *taken.call, verdict_});
}

std::string Turnstile::Trace() const {
  std::string trace;
  for (size_t i = 0; i < passed_.size(); ++i) {
    const Passed& step = passed_[i];
    // The binary names of numbered objects, least significant bit first, as numbers.
    std::string name = step.call.name;
    const size_t slash = name.rfind('/');
    const size_t dot = name.rfind('.');
    if (slash != std::string::npos && dot != std::string::npos && dot == slash + 1 + 64) {
      uint64_t number = 0;
      for (size_t bit = 0; bit < 64; ++bit)
        number |= static_cast<uint64_t>(name[slash + 1 + bit] == '1') << bit;
      name = fmt::format("{} {}", name.substr(0, slash), number);
    }
    const size_t shard = name.find("_mem_wal/");
    if (shard != std::string::npos && name.size() > shard + 46) name = name.substr(shard + 46);
    trace += fmt::format("\n  {}. writer {}: {} {}{}", i + 1, step.writer,
                         StoreOperationName(step.call.operation), name, VerdictName(step.verdict));
  }
  return trace;
}

}  // namespace sarissa::duel
