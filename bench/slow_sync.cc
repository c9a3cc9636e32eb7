#include "slow_sync.h"

#include <thread>
#include <utility>

namespace sarissa::bench {

class SlowSyncFile final : public env::WritableFile {
 public:
  SlowSyncFile(SlowSyncFileSystem& file_system, std::unique_ptr<env::WritableFile> inner)
      : file_system_(file_system), inner_(std::move(inner)) {}

  Status Append(std::span<const uint8_t> data) override { return inner_->Append(data); }
  uint64_t size() const override { return inner_->size(); }
  Status Sync() override { return file_system_.Delayed(inner_->Sync()); }
  Status LinkAs(const std::string& path) override { return inner_->LinkAs(path); }
  Result<std::shared_ptr<env::ReadableFile>> OpenForRead() override {
    return inner_->OpenForRead();
  }

 private:
  SlowSyncFileSystem& file_system_;
  const std::unique_ptr<env::WritableFile> inner_;
};

Result<std::unique_ptr<env::WritableFile>> SlowSyncFileSystem::CreateUnnamed(
    const std::string& directory) {
  ARROW_ASSIGN_OR_RAISE(auto file, inner_.CreateUnnamed(directory));
  return std::make_unique<SlowSyncFile>(*this, std::move(file));
}

Status SlowSyncFileSystem::Delayed(Status synced) {
  ++syncs_;
  // A sleep of zero would still give the core away.
  if (synced.ok() && delay_ > env::Duration::zero()) std::this_thread::sleep_for(delay_);
  return synced;
}

}  // namespace sarissa::bench
