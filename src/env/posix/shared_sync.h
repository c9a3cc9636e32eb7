// Lets concurrent callers share one expensive sync of the same thing.
//
// Invariant: a caller is answered only by a sync that started after its call, so what it did before
// the call is covered. While one sync runs, all later callers wait for the next one, which one of
// them runs for all. Thread safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/error.h"

namespace sarissa::env {

class SharedSync {
 public:
  // Runs `sync` for `key`, or waits for another caller's run that started after this call; returns
  // its result.
  Status Run(const std::string& key, const std::function<Status()>& sync);

 private:
  struct Round {
    bool done = false;
    Status result;
  };
  struct Entry {
    bool running = false;
    int users = 0;
    std::shared_ptr<Round> next = std::make_shared<Round>();
    std::condition_variable changed;
  };

  std::mutex mutex_;  // leaf: not held while a sync runs
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace sarissa::env
