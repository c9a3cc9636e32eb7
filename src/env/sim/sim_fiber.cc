#include "env/sim/sim_fiber.h"

#include <cxxabi.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <utility>

#include "base/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define SARISSA_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SARISSA_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SARISSA_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SARISSA_FIBER_TSAN 1
#endif
#endif

#if defined(SARISSA_FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(SARISSA_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace sarissa::env {
namespace {

// A stack with a guard page below it; tells where it lies.
struct ObservedStack {
  boost::context::protected_fixedsize_stack stack;
  const void** bottom;
  size_t* size;

  boost::context::stack_context allocate() {
    boost::context::stack_context context = stack.allocate();
    *bottom = static_cast<const char*>(context.sp) - context.size;
    *size = context.size;
    return context;
  }
  void deallocate(boost::context::stack_context& context) { stack.deallocate(context); }
};

}  // namespace

SimFiber::SimFiber(size_t stack_bytes) {
#if defined(SARISSA_FIBER_TSAN)
  race_fiber_ = __tsan_create_fiber(0);
#endif
  ObservedStack stack{boost::context::protected_fixedsize_stack(stack_bytes), &stack_bottom_,
                      &stack_size_};
  self_ = boost::context::fiber(
      std::allocator_arg, std::move(stack),
      [this](boost::context::fiber&& caller) { return Run(std::move(caller)); });
}

SimFiber::~SimFiber() {
  SARISSA_CHECK(idle(), "a fiber is destroyed in the middle of a task");
  leave_ = true;
  Resume();
#if defined(SARISSA_FIBER_TSAN)
  __tsan_destroy_fiber(race_fiber_);
#endif
}

void SimFiber::Assign(uint64_t id, SimExecutor& executor, Task task) {
  SARISSA_CHECK(idle(), "a fiber has two tasks");
  id_ = id;
  executor_ = &executor;
  task_ = std::move(task);
  has_task_ = true;
}

SimFiber::ExceptionState SimFiber::SwapExceptions(const ExceptionState& next) {
  // __cxa_eh_globals is a pointer and a counter; the ABI fixes its layout.
  void* globals = abi::__cxa_get_globals();
  ExceptionState previous;
  std::memcpy(previous.bytes.data(), globals, previous.bytes.size());
  std::memcpy(globals, next.bytes.data(), next.bytes.size());
  return previous;
}

void SimFiber::Resume() {
  const ExceptionState callers = SwapExceptions(exceptions_);
#if defined(SARISSA_FIBER_ASAN)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_bottom_, stack_size_);
#endif
#if defined(SARISSA_FIBER_TSAN)
  race_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(race_fiber_, 0);
#endif
  self_ = std::move(self_).resume();
#if defined(SARISSA_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  exceptions_ = SwapExceptions(callers);
}

void SimFiber::Arrived() {
#if defined(SARISSA_FIBER_ASAN)
  __sanitizer_finish_switch_fiber(own_fake_stack_, &caller_bottom_, &caller_size_);
#endif
}

void SimFiber::GiveWay() {
#if defined(SARISSA_FIBER_ASAN)
  __sanitizer_start_switch_fiber(&own_fake_stack_, caller_bottom_, caller_size_);
#endif
#if defined(SARISSA_FIBER_TSAN)
  __tsan_switch_to_fiber(race_caller_, 0);
#endif
  caller_ = std::move(caller_).resume();
  Arrived();
}

void SimFiber::RunTask() {
  try {
    task_();
  } catch (const FiberKilled&) {
    // The process died; its frames are gone now.
  }
  task_ = nullptr;
  has_task_ = false;
}

boost::context::fiber SimFiber::Run(boost::context::fiber&& caller) {
  caller_ = std::move(caller);
  Arrived();
  while (!leave_) {
    RunTask();
    GiveWay();
  }
#if defined(SARISSA_FIBER_ASAN)
  // No place to save to: this stack is not coming back.
  __sanitizer_start_switch_fiber(nullptr, caller_bottom_, caller_size_);
#endif
#if defined(SARISSA_FIBER_TSAN)
  __tsan_switch_to_fiber(race_caller_, 0);
#endif
  return std::move(caller_);
}

}  // namespace sarissa::env
