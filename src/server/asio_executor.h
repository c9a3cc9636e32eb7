// An io_context as an env::Executor, so that futures can bring their results back to the io
// threads.
//
// Thread safe. The io_context outlives it; Stop() refuses new work.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "env/executor.h"

namespace sarissa::server {

class AsioExecutor final : public env::Executor {
 public:
  explicit AsioExecutor(boost::asio::io_context& context) : context_(context) {}

  bool Post(env::Task task) override;
  env::TimerId PostAfter(env::Duration delay, env::Task task) override;
  bool CancelTimer(env::TimerId timer) override;

  void Stop();

 private:
  std::shared_ptr<boost::asio::steady_timer> TakeTimer(env::TimerId timer);

  boost::asio::io_context& context_;
  // Relaxed: a task that slips in beside Stop() is destroyed with the io_context.
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // leaf
  env::TimerId last_timer_ = 0;
  std::unordered_map<env::TimerId, std::shared_ptr<boost::asio::steady_timer>> timers_;
};

}  // namespace sarissa::server
