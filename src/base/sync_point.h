// Named points in product code where tests hold, order or kill the process.
//
// SARISSA_SYNC_POINT("log.after_put") costs one relaxed load while nothing is armed. Compiled out
// with -DSARISSA_SYNC_POINTS=OFF. Arming is for tests only; handlers run on whichever thread
// reaches the point. The environment variable SARISSA_KILL_AT=name[:n] kills the process (SIGKILL)
// at the n-th passage of a point.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

namespace sarissa {

class SyncPoints {
 public:
  static SyncPoints& Instance();

  // Runs `handler` at every passage of `name` until Clear().
  void Arm(std::string name, std::function<void()> handler);
  void Clear();
  // Reads SARISSA_KILL_AT; called once by main().
  void ArmFromEnvironment();

  void Reach(std::string_view name);
  // Relaxed: arming happens before the code under test starts, or its order does not matter.
  bool armed() const { return armed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> armed_{false};
};

}  // namespace sarissa

#if defined(SARISSA_SYNC_POINTS)
#define SARISSA_SYNC_POINT(name)                                                                  \
  do {                                                                                            \
    if (::sarissa::SyncPoints::Instance().armed()) ::sarissa::SyncPoints::Instance().Reach(name); \
  } while (false)
#else
#define SARISSA_SYNC_POINT(name) \
  do {                           \
  } while (false)
#endif
