// The open connections of a server: how many there are, and the wait for the last one. Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "env/future.h"
#include "server/connection.h"

namespace sarissa::server {

class ConnectionSet {
 public:
  uint64_t Add(const std::shared_ptr<Connection>& connection);
  void Remove(uint64_t id);
  uint64_t size() const;

  // Tells every connection that shutdown has begun; completes when the last one is gone. Called
  // once.
  env::Future<env::Unit> Drain();

 private:
  mutable std::mutex mutex_;  // leaf
  uint64_t last_id_ = 0;
  std::unordered_map<uint64_t, std::weak_ptr<Connection>> connections_;
  std::optional<env::Promise<env::Unit>> emptied_;
};

}  // namespace sarissa::server
