// Promise and future: one result, handed from the worker that makes it to whoever waits.
//
// Why not arrow::Future: its continuations run on the thread that completes it (perhaps under a
// lock), it has no deadline and no executor, and the thread sanitizer cannot see into it.
//
// Rules
//  1. A promise is completed exactly once. Completing twice is a bug (check), except after
//  Future::Cancel, where the late
//     result is dropped.
//  2. A promise that is destroyed without a result completes its future with kCancelled: every wait
//  ends, also when the
//     worker stops (S5).
//  3. Continuations are posted to the executor they name, never run inside Set. Two continuations
//  may run at once.
//  4. Thread safe. Copies of a Future share one state; Promise is move-only.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "env/executor.h"

namespace sarissa::env {

// The value of a future that only reports success.
struct Unit {};

template <typename T>
class Promise;

template <typename T>
class Future {
 public:
  using Callback = std::function<void(const Result<T>&)>;

  Future() = default;
  // A future that is complete from the start.
  static Future Ready(Result<T> result) {
    Future future(std::make_shared<State>());
    future.state_->result.emplace(std::move(result));
    return future;
  }

  bool valid() const { return state_ != nullptr; }
  bool IsReady() const {
    const std::scoped_lock lock(state_->mutex);
    return state_->result.has_value();
  }
  // The result; must be ready.
  const Result<T>& Get() const {
    const std::scoped_lock lock(state_->mutex);
    SARISSA_CHECK(state_->result.has_value(), "Future::Get before it is ready");
    return *state_->result;  // never changes once set
  }

  // Posts `callback` to `executor` once the result is there (at once if it already is).
  void Then(Executor& executor, Callback callback) const {
    {
      const std::scoped_lock lock(state_->mutex);
      if (!state_->result.has_value()) {
        state_->callbacks.push_back({&executor, std::move(callback)});
        return;
      }
    }
    PostCallback(executor, state_, std::move(callback));
  }

  // Gives up: the future completes with kCancelled unless it is complete already; a later result is
  // dropped.
  void Cancel(std::string why = "the waiter gave up") const {
    State::Complete(state_, MakeError(ErrorKind::kCancelled, std::move(why)), /*cancelled=*/true);
  }

  // A future that completes like this one, or with kDeadline after `timeout`, whichever is first.
  // The work goes on.
  Future WithDeadline(Executor& executor, Duration timeout, std::string what) const;

  // Blocks the calling thread. Only for main(), tests on real threads and command line tools: never
  // inside a task and never under simulation.
  Result<T> Wait(Duration timeout) const {
    std::unique_lock lock(state_->mutex);
    if (!state_->done.wait_for(lock, timeout, [&] { return state_->result.has_value(); })) {
      return MakeError(ErrorKind::kDeadline, "the wait ended before the work did");
    }
    return *state_->result;
  }

 private:
  friend class Promise<T>;

  struct Waiter {
    Executor* executor;
    Callback callback;
  };
  // The mutex is a leaf: nothing is called while it is held.
  struct State {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Result<T>> result;
    bool cancelled = false;
    std::vector<Waiter> callbacks;

    // True if this call completed the state.
    static bool Complete(const std::shared_ptr<State>& state, Result<T> result, bool cancelled) {
      std::vector<Waiter> waiters;
      {
        const std::scoped_lock lock(state->mutex);
        if (state->result.has_value()) return false;
        state->result.emplace(std::move(result));
        state->cancelled = cancelled;
        waiters.swap(state->callbacks);
        state->done.notify_all();
      }
      for (Waiter& waiter : waiters)
        PostCallback(*waiter.executor, state, std::move(waiter.callback));
      return true;
    }
  };

  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}

  static void PostCallback(Executor& executor, const std::shared_ptr<State>& state,
                           Callback callback) {
    executor.Post([state, callback = std::move(callback)] { callback(*state->result); });
  }

  std::shared_ptr<State> state_;
};

template <typename T>
class Promise {
 public:
  Promise() : state_(std::make_shared<typename Future<T>::State>()) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    if (this != &other) {
      Abandon();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  ~Promise() { Abandon(); }

  Future<T> future() const { return Future<T>(state_); }

  // True while nobody has set a result and nobody cancelled.
  bool pending() const {
    const std::scoped_lock lock(state_->mutex);
    return !state_->result.has_value();
  }

  void Set(Result<T> result) {
    const bool completed =
        Future<T>::State::Complete(state_, std::move(result), /*cancelled=*/false);
    if (completed) return;
    const std::scoped_lock lock(state_->mutex);
    SARISSA_CHECK(state_->cancelled, "a promise was completed twice");
  }

 private:
  void Abandon() {
    if (state_ == nullptr) return;
    Future<T>::State::Complete(
        state_, MakeError(ErrorKind::kCancelled, "the worker stopped before it reported a result"),
        /*cancelled=*/true);
    state_.reset();
  }

  std::shared_ptr<typename Future<T>::State> state_;
};

template <typename T>
Future<T> Future<T>::WithDeadline(Executor& executor, Duration timeout, std::string what) const {
  auto promise = std::make_shared<Promise<T>>();
  Future<T> bounded = promise->future();
  const TimerId timer = executor.PostAfter(timeout, [bounded, what = std::move(what)] {
    State::Complete(bounded.state_, Error(ErrorKind::kDeadline, "{} did not end in time", what),
                    /*cancelled=*/true);
  });
  Then(executor, [promise, timer, &executor](const Result<T>& result) {
    executor.CancelTimer(timer);
    promise->Set(result);
  });
  return bounded;
}

}  // namespace sarissa::env
