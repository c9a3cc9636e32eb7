#include "server/connection_set.h"

#include <vector>

namespace sarissa::server {

uint64_t ConnectionSet::Add(const std::shared_ptr<Connection>& connection) {
  const std::scoped_lock lock(mutex_);
  connections_.emplace(++last_id_, connection);
  return last_id_;
}

void ConnectionSet::Remove(uint64_t id) {
  std::optional<env::Promise<env::Unit>> emptied;
  {
    const std::scoped_lock lock(mutex_);
    connections_.erase(id);
    if (connections_.empty()) emptied = std::exchange(emptied_, std::nullopt);
  }
  if (emptied.has_value()) emptied->Set(env::Unit{});
}

uint64_t ConnectionSet::size() const {
  const std::scoped_lock lock(mutex_);
  return connections_.size();
}

env::Future<env::Unit> ConnectionSet::Drain() {
  std::vector<std::shared_ptr<Connection>> open;
  env::Promise<env::Unit> promise;
  const env::Future<env::Unit> future = promise.future();
  bool empty = false;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, weak] : connections_) {
      if (std::shared_ptr<Connection> connection = weak.lock())
        open.push_back(std::move(connection));
    }
    empty = connections_.empty();
    if (!empty) emptied_.emplace(std::move(promise));
  }
  if (empty) promise.Set(env::Unit{});
  for (const std::shared_ptr<Connection>& connection : open) connection->Drain();
  return future;
}

}  // namespace sarissa::server
