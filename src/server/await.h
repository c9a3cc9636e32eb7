// The bridge between coroutines and the engine's world: a coroutine waits for an env::Future, or
// for a function that runs on another executor, without holding its io thread.
//
// The coroutine resumes on its own executor (its strand). Results are copied out of the future, so
// large ones travel by pointer.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "env/executor.h"
#include "env/future.h"

namespace sarissa::server {

template <typename T>
using Awaitable = boost::asio::awaitable<T>;

namespace internal {

template <typename R>
struct ResultValue;
template <typename T>
struct ResultValue<arrow::Result<T>> {
  using type = T;
};
template <>
struct ResultValue<arrow::Status> {
  using type = env::Unit;
};

template <typename T>
Result<T> AsResult(Result<T> result) {
  return result;
}
inline Result<env::Unit> AsResult(const Status& status) {
  if (!status.ok()) return status;
  return env::Unit{};
}

}  // namespace internal

// Waits for `future`; `io` is where its completion is posted.
template <typename T>
Awaitable<Result<T>> Await(env::Executor& io, env::Future<T> future) {
  auto initiation = [&io, future = std::move(future)](auto handler) {
    using Handler = decltype(handler);
    auto shared = std::make_shared<Handler>(std::move(handler));
    future.Then(io, [shared](const Result<T>& result) {
      auto executor = boost::asio::get_associated_executor(*shared);
      boost::asio::dispatch(executor, [shared, result]() mutable {
        Handler resume = std::move(*shared);
        std::move(resume)(std::move(result));
      });
    });
  };
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Result<T>)>(
      std::move(initiation), boost::asio::use_awaitable);
}

// Runs `function` (returning Status or Result<T>) on `executor`; the future completes with what it
// returned, or with kCancelled when the executor has stopped.
template <typename Function>
auto StartOn(env::Executor& executor, Function function) {
  using T = typename internal::ResultValue<std::invoke_result_t<Function&>>::type;
  auto promise = std::make_shared<env::Promise<T>>();
  env::Future<T> future = promise->future();
  auto shared = std::make_shared<Function>(std::move(function));
  executor.Post([promise, shared] { promise->Set(internal::AsResult((*shared)())); });
  return future;
}

// Takes what it needs of `function` by moving. Only named functions are taken: gcc 12 destroys a
// closure that is made inside an await expression twice.
template <typename Function>
auto RunOn(env::Executor& io, env::Executor& executor, Function& function) {
  return Await(io, StartOn(executor, std::move(function)));
}

}  // namespace sarissa::server
