// Where work runs. A task never waits for another task's future: it ends, and the completion posts
// the next step. A task may block in a file or object store call (that is what the storage executor
// is for).
#pragma once

#include <cstdint>
#include <functional>

#include "env/clock.h"

namespace sarissa::env {

using Task = std::function<void()>;
using TimerId = uint64_t;

// Thread safe. Tasks posted by one thread to one executor start in order when the executor has one
// worker, else in any order.
class Executor {
 public:
  virtual ~Executor() = default;
  // Returns false when the executor has stopped; the task is then destroyed without running
  // (promises it holds complete as cancelled).
  virtual bool Post(Task task) = 0;
  // Runs `task` once after `delay`. Returns 0 when the executor has stopped.
  virtual TimerId PostAfter(Duration delay, Task task) = 0;
  // True if the timer had not fired and never will.
  virtual bool CancelTimer(TimerId timer) = 0;
};

}  // namespace sarissa::env
