// A stack of its own that runs one task after another. Used by SimScheduler only; the rules are
// there.
//
// Address and thread sanitizers are told about every switch of stacks. What the C++ runtime keeps
// per thread about exceptions in flight is kept per fiber here, so that a task may give way inside
// a catch block.
#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <cstddef>
#include <cstdint>

#include "env/executor.h"

namespace sarissa::env {

class SimExecutor;

// Thrown through a dead task's frames to unwind them.
struct FiberKilled {};

class SimFiber {
 public:
  explicit SimFiber(size_t stack_bytes);
  // The task must have ended.
  ~SimFiber();
  SimFiber(const SimFiber&) = delete;
  SimFiber& operator=(const SimFiber&) = delete;

  void Assign(uint64_t id, SimExecutor& executor, Task task);
  uint64_t id() const { return id_; }
  SimExecutor& executor() const { return *executor_; }
  // The task has ended and the fiber may be assigned another one.
  bool idle() const { return !has_task_; }

  // Runs the task until it gives way or ends. Called on any other stack.
  void Resume();
  // Returns to whoever resumed this fiber. Called on this fiber's stack.
  void GiveWay();

 private:
  struct ExceptionState {
    std::array<std::byte, 2 * sizeof(void*)> bytes{};
  };

  boost::context::fiber Run(boost::context::fiber&& caller);
  void RunTask();
  void Arrived();
  static ExceptionState SwapExceptions(const ExceptionState& next);

  [[maybe_unused]] const void* stack_bottom_ = nullptr;
  [[maybe_unused]] size_t stack_size_ = 0;
  uint64_t id_ = 0;
  SimExecutor* executor_ = nullptr;
  Task task_;
  bool has_task_ = false;
  bool leave_ = false;
  boost::context::fiber self_;
  boost::context::fiber caller_;
  ExceptionState exceptions_;
  // For the address sanitizer.
  [[maybe_unused]] void* own_fake_stack_ = nullptr;
  [[maybe_unused]] const void* caller_bottom_ = nullptr;
  [[maybe_unused]] size_t caller_size_ = 0;
  // For the thread sanitizer.
  [[maybe_unused]] void* race_fiber_ = nullptr;
  [[maybe_unused]] void* race_caller_ = nullptr;
};

}  // namespace sarissa::env
