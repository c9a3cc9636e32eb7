#include "server/asio_executor.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace sarissa::server {

bool AsioExecutor::Post(env::Task task) {
  if (stopped_.load(std::memory_order_relaxed)) return false;
  boost::asio::post(context_, std::move(task));
  return true;
}

env::TimerId AsioExecutor::PostAfter(env::Duration delay, env::Task task) {
  if (stopped_.load(std::memory_order_relaxed)) return 0;
  auto timer = std::make_shared<boost::asio::steady_timer>(context_);
  timer->expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(delay));
  env::TimerId id = 0;
  {
    const std::scoped_lock lock(mutex_);
    id = ++last_timer_;
    timers_.emplace(id, timer);
  }
  timer->async_wait([this, id, timer, task = std::move(task)](const boost::system::error_code&) {
    if (TakeTimer(id) != nullptr) task();
  });
  return id;
}

bool AsioExecutor::CancelTimer(env::TimerId timer) {
  const std::shared_ptr<boost::asio::steady_timer> taken = TakeTimer(timer);
  if (taken == nullptr) return false;
  // A timer is not thread safe: it is cancelled where its handler runs, or keeps until it fires as
  // a no-op.
  boost::asio::post(context_, [taken] { taken->cancel(); });
  return true;
}

void AsioExecutor::Stop() {
  stopped_.store(true, std::memory_order_relaxed);
}

std::shared_ptr<boost::asio::steady_timer> AsioExecutor::TakeTimer(env::TimerId timer) {
  const std::scoped_lock lock(mutex_);
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return nullptr;
  std::shared_ptr<boost::asio::steady_timer> taken = std::move(found->second);
  timers_.erase(found);
  return taken;
}

}  // namespace sarissa::server
