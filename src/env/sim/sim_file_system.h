// One process' view of a SimDisk: logs every call, gives way to other tasks, injects faults.
//
// Works without a scheduler too (plain unit tests, any thread). Map returns a copy on the heap.
// After Detach every call fails with kUnavailable; in a fiber of a killed process it does not
// return at all (SimScheduler rule 3).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "env/file_system.h"
#include "env/sim/sim_disk.h"
#include "env/sim/sim_random.h"
#include "env/sim/sim_scheduler.h"

namespace sarissa::env {

class SimFileSystem final : public FileSystem {
 public:
  struct Options {
    SimScheduler* scheduler = nullptr;
    uint64_t seed = 1;
    // Chance that a call gives way before its effect, and again after it.
    uint32_t yield_percent = 50;
    // Each mutating call takes up to this much virtual time.
    Duration max_latency{0};
  };
  // An error returned by the hook is the call's result.
  using Hook = std::function<Status(const SimOperation&)>;

  explicit SimFileSystem(SimDisk& disk);
  SimFileSystem(SimDisk& disk, Options options);
  ~SimFileSystem() override;

  Result<std::unique_ptr<WritableFile>> CreateUnnamed(const std::string& directory) override;
  Result<std::shared_ptr<ReadableFile>> OpenRead(const std::string& path) override;
  Result<FileInfo> Stat(const std::string& path) override;
  Result<std::vector<FileInfo>> List(const std::string& directory) override;
  Status CreateDirectory(const std::string& path) override;
  Status SyncDirectory(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status RemoveFile(const std::string& path) override;
  Status RemoveDirectory(const std::string& path) override;
  Result<std::shared_ptr<void>> LockFile(const std::string& path) override;

  // Runs before each call takes effect; with an error the call does nothing.
  void SetFaultHook(Hook hook);
  // Runs after each call took effect; with an error it has happened all the same.
  void SetAfterHook(Hook hook);
  // The process died: nothing it does reaches the disk any more; its locks are released.
  void Detach();
  bool detached() const { return shared_->detached.load(); }

 private:
  friend class SimReadableFile;
  friend class SimWritableFile;

  // Shared with open files, which may outlive the file system.
  struct Shared {
    Shared(SimDisk& the_disk, Options the_options)
        : disk(the_disk), options(the_options), random(the_options.seed) {}
    Status CheckAttached(const SimOperation& operation);
    Status Before(const SimOperation& operation);
    Status After(const SimOperation& operation, Status result);
    Status RunHook(const Hook Shared::* hook, const SimOperation& operation);
    void GiveWay();

    SimDisk& disk;
    const Options options;
    SimRandom random;
    std::atomic<bool> detached{false};
    std::mutex hook_mutex;  // leaf: guards the two hooks, not held while they run
    Hook before;
    Hook after;
  };

  Status Remove(SimOperationKind kind, const std::string& path);
  // Runs `effect` on the disk under its lock, between the hooks.
  static Status Perform(Shared& shared, SimOperation operation,
                        const std::function<Status(SimOperation&)>& effect);

  std::shared_ptr<Shared> shared_;
};

}  // namespace sarissa::env
