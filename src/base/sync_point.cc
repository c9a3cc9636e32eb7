#include "base/sync_point.h"

#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

namespace sarissa {
namespace {

// Leaf lock: nothing is called while it is held.
std::mutex handlers_mutex;
std::map<std::string, std::function<void()>, std::less<>>& Handlers() {
  static std::map<std::string, std::function<void()>, std::less<>> handlers;
  return handlers;
}

}  // namespace

SyncPoints& SyncPoints::Instance() {
  static SyncPoints points;
  return points;
}

void SyncPoints::Arm(std::string name, std::function<void()> handler) {
  const std::scoped_lock lock(handlers_mutex);
  Handlers()[std::move(name)] = std::move(handler);
  armed_.store(true, std::memory_order_relaxed);
}

void SyncPoints::Clear() {
  const std::scoped_lock lock(handlers_mutex);
  Handlers().clear();
  armed_.store(false, std::memory_order_relaxed);
}

void SyncPoints::ArmFromEnvironment() {
  const char* value = std::getenv("SARISSA_KILL_AT");
  if (value == nullptr || *value == '\0') return;
  const std::string_view text(value);
  const size_t colon = text.find(':');
  const int passages =
      colon == std::string_view::npos ? 1 : std::atoi(text.substr(colon + 1).data());
  auto left = std::make_shared<std::atomic<int>>(passages);
  Arm(std::string(text.substr(0, colon)), [left] {
    if (left->fetch_sub(1) == 1) std::raise(SIGKILL);
  });
}

void SyncPoints::Reach(std::string_view name) {
  std::function<void()> handler;
  {
    const std::scoped_lock lock(handlers_mutex);
    const auto found = Handlers().find(name);
    if (found == Handlers().end()) return;
    handler = found->second;
  }
  handler();
}

}  // namespace sarissa
