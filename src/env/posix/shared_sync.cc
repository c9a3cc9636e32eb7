#include "env/posix/shared_sync.h"

namespace sarissa::env {

Status SharedSync::Run(const std::string& key, const std::function<Status()>& sync) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[key];
  ++entry.users;
  // The next round has not started, so it covers everything before this call.
  const std::shared_ptr<Round> round = entry.next;
  entry.changed.wait(lock, [&] { return round->done || !entry.running; });
  if (!round->done) {
    entry.running = true;
    entry.next = std::make_shared<Round>();
    lock.unlock();
    Status result = sync();
    lock.lock();
    round->result = std::move(result);
    round->done = true;
    entry.running = false;
    entry.changed.notify_all();
  }
  Status result = round->result;
  if (--entry.users == 0) entries_.erase(key);
  return result;
}

}  // namespace sarissa::env
