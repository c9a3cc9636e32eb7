// Faults of a simulated world, drawn by weight: single faults of the store, times of silence, a
// full disk, failing syncs. Between the store and the disk, and on the disk itself.
#pragma once

#include <algorithm>

#include "env/random.h"
#include "env/sim/sim_file_system.h"
#include "object_store/fault_store.h"

namespace sarissa::simulation {

class Weather {
 public:
  explicit Weather(env::Random& random) : random_(random) {}

  // The next fault, in the calls that `faults` sees. Every other time an earlier one ends.
  void Change(object_store::FaultStore& faults) {
    using object_store::FaultAction;
    using object_store::StoreOperation;
    faulty_ = true;
    if (random_.Below(2) == 0) {
      faults.ClearRules();
      disk_full_ = false;
    }
    object_store::FaultRule rule;
    rule.nth = 1 + random_.Below(20);
    const uint64_t dice = random_.Below(100);
    if (dice < 20) {  // one call fails before it does anything
      rule.action = FaultAction::kFail;
    } else if (dice < 40) {
      rule.operation = StoreOperation::kFinish;
      rule.action = FaultAction::kLandedAnswerLost;
    } else if (dice < 55) {
      rule.operation = StoreOperation::kFinish;
      rule.action = FaultAction::kNotLandedAnswerLost;
    } else if (dice < 62) {
      rule.operation = StoreOperation::kFinish;
      rule.action = FaultAction::kTorn;
      rule.torn_bytes = random_.Below(200);
    } else if (dice < 75) {  // slow
      rule.action = FaultAction::kDelay;
      rule.delay = std::chrono::milliseconds(1 + random_.Below(8000));
    } else if (dice < 85) {  // nothing of one kind works
      constexpr StoreOperation kKinds[] = {StoreOperation::kFinish, StoreOperation::kHead,
                                           StoreOperation::kOpen, StoreOperation::kList};
      rule.operation = kKinds[random_.Below(4)];
      rule.nth = 0;
      rule.action = FaultAction::kFail;
    } else if (dice < 93) {
      disk_full_ = true;
      return;
    } else {
      failing_sync_ = 1 + random_.Below(10);
      return;
    }
    faults.AddRule(rule);
  }
  void Clear(object_store::FaultStore& faults) {
    faults.ClearRules();
    faulty_ = false;
    disk_full_ = false;
    failing_sync_ = 0;
  }
  bool faulty() const { return faulty_; }
  // A sync failed in this process: what it covered may be lost, and only a new process heals that.
  bool sync_failed() const { return sync_failed_; }
  void NewProcess() { sync_failed_ = false; }

  // For SimFileSystem::SetFaultHook. The pages of a failed sync are lost.
  Status OnDisk(const env::SimOperation& operation) {
    using env::SimOperationKind;
    const bool allocates = operation.kind == SimOperationKind::kCreateUnnamed ||
                           operation.kind == SimOperationKind::kAppend ||
                           operation.kind == SimOperationKind::kCreateDirectory;
    if (disk_full_ && allocates) return MakeError(ErrorKind::kNoSpace, "no space on the disk");
    const bool syncs = operation.kind == SimOperationKind::kSync ||
                       operation.kind == SimOperationKind::kSyncDirectory;
    if (failing_sync_ > 0 && syncs && --failing_sync_ == 0) {
      sync_failed_ = true;
      return MakeError(ErrorKind::kIo, "the device failed");
    }
    return Status::OK();
  }

 private:
  env::Random& random_;
  bool faulty_ = false;
  bool disk_full_ = false;
  uint64_t failing_sync_ = 0;
  bool sync_failed_ = false;
};

}  // namespace sarissa::simulation
