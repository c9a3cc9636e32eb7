// The checker's model of one store: what its clients sent and what they were told. It lives outside
// the engine and knows nothing of it.
//
// Values are unique and grow with time, and each key is written by one client that waits for its
// answers. So of a key the newest acknowledged value or a newer one that was sent must be shown
// (C1, C2, C4). An unanswered append is there as a whole or not at all, and once seen it stays.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/memwal/rows.h"

namespace sarissa::simulation {

using Shown = std::map<std::string, int64_t>;

class Expectations {
 public:
  // Number of an append.
  size_t Sent(const memwal::testing::KeyedRows& rows) {
    ++changes_;
    Append append;
    for (const auto& [key, value] : rows) append.newest[key] = value;
    for (const auto& [key, value] : append.newest) sent_[key][value] = appends_.size();
    appends_.push_back(std::move(append));
    return appends_.size() - 1;
  }
  void Acknowledged(size_t append, uint64_t position) {
    ++changes_;
    appends_[append].position = position;
    for (const auto& [key, value] : appends_[append].newest) Raise(key, value);
  }
  // The client was told that nothing was written: not a row of it may ever be shown.
  void Refused(size_t append) {
    ++changes_;
    for (const auto& [key, value] : appends_[append].newest) sent_[key].erase(value);
  }
  void Seen(const Shown& shown) {
    for (const auto& [key, value] : shown) {
      if (Raise(key, value)) ++changes_;
    }
  }

  // Empty when `shown` is a legal state; else what is wrong.
  std::string Check(const Shown& shown) const {
    const std::string invented = CheckInvention(shown);
    return invented.empty() ? CheckLoss(shown) : invented;
  }
  // C2 and wholeness of appends.
  std::string CheckInvention(const Shown& shown) const {
    for (const auto& [key, value] : shown) {
      const auto sent = sent_.find(key);
      const bool known = sent != sent_.end() && sent->second.contains(value);
      if (!known) return fmt::format("{} = {} was never sent, or was refused", key, value);
      for (const auto& [other, least] : appends_[sent->second.at(value)].newest) {
        const auto row = shown.find(other);
        if (row == shown.end() || row->second < least)
          return fmt::format("{} = {} is shown without {} = {} of its append", key, value, other,
                             least);
      }
    }
    return "";
  }
  // C1 and C4.
  std::string CheckLoss(const Shown& shown) const {
    for (const auto& [key, least] : least_) {
      const auto row = shown.find(key);
      if (row == shown.end())
        return fmt::format("{} = {} was acknowledged or seen, and is gone", key, least);
      if (row->second < least)
        return fmt::format("{} = {} was acknowledged or seen, {} is shown", key, least,
                           row->second);
    }
    return "";
  }

  // Acknowledged appends with the log position that their answer named.
  struct LoggedAppend {
    uint64_t position = 0;
    const Shown* rows = nullptr;
  };
  std::vector<LoggedAppend> Logged() const {
    std::vector<LoggedAppend> logged;
    for (const Append& append : appends_) {
      if (append.position > 0) logged.push_back({append.position, &append.newest});
    }
    return logged;
  }
  size_t acknowledged() const {
    return static_cast<size_t>(std::count_if(appends_.begin(), appends_.end(),
                                             [](const Append& append) { return append.position; }));
  }
  // Grows whenever what is legal changes.
  uint64_t changes() const { return changes_; }

 private:
  struct Append {
    Shown newest;           // an older row of a key within the append is never shown
    uint64_t position = 0;  // 0: not acknowledged
  };

  bool Raise(const std::string& key, int64_t value) {
    int64_t& least = least_[key];
    if (value <= least) return false;
    least = value;
    return true;
  }

  std::vector<Append> appends_;
  std::map<std::string, std::map<int64_t, size_t>> sent_;  // key -> value -> append
  Shown least_;
  uint64_t changes_ = 0;
};

}  // namespace sarissa::simulation
