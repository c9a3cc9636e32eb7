#include "env/sim/sim_file_system.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <utility>

namespace sarissa::env {

Status SimFileSystem::Shared::CheckAttached(const SimOperation& operation) {
  if (!detached.load()) return Status::OK();
  if (options.scheduler != nullptr) options.scheduler->EndIfKilled();
  return Error(ErrorKind::kUnavailable, "{} '{}': the process is dead",
               SimOperationName(operation.kind), operation.path);
}

void SimFileSystem::Shared::GiveWay() {
  SimScheduler* const scheduler = options.scheduler;
  if (scheduler != nullptr && random.Below(100) < options.yield_percent) scheduler->Yield();
}

Status SimFileSystem::Shared::RunHook(const Hook Shared::* hook, const SimOperation& operation) {
  Hook copy;
  {
    const std::scoped_lock lock(hook_mutex);
    copy = this->*hook;
  }
  return copy ? copy(operation) : Status::OK();
}

Status SimFileSystem::Shared::Before(const SimOperation& operation) {
  ARROW_RETURN_NOT_OK(CheckAttached(operation));
  SimScheduler* const scheduler = options.scheduler;
  if (scheduler != nullptr) {
    scheduler->Note(SimOperationName(operation.kind));
    scheduler->Note(operation.path);
    if (options.max_latency.count() > 0 && IsMutation(operation.kind)) {
      scheduler->SleepFor(
          Duration(random.Below(static_cast<uint64_t>(options.max_latency.count()) + 1)));
    }
  }
  GiveWay();
  const Status fault = RunHook(&Shared::before, operation);
  // The hook may have killed the process.
  ARROW_RETURN_NOT_OK(CheckAttached(operation));
  return fault;
}

Status SimFileSystem::Shared::After(const SimOperation& operation, Status result) {
  GiveWay();
  const Status fault = RunHook(&Shared::after, operation);
  ARROW_RETURN_NOT_OK(CheckAttached(operation));
  return fault.ok() ? result : fault;
}

Status SimFileSystem::Perform(Shared& shared, SimOperation operation,
                              const std::function<Status(SimOperation&)>& effect) {
  Status result = shared.Before(operation);
  const bool faulty = !result.ok();
  {
    const std::scoped_lock lock(shared.disk.mutex_);
    if (!faulty) {
      result = Annotate(effect(operation), SimOperationName(operation.kind));
    }
    operation.failed = !result.ok();
    shared.disk.Record(operation);
  }
  return faulty ? result : shared.After(operation, std::move(result));
}

SimFileSystem::SimFileSystem(SimDisk& disk) : SimFileSystem(disk, Options()) {}

SimFileSystem::SimFileSystem(SimDisk& disk, Options options)
    : shared_(std::make_shared<Shared>(disk, options)) {}

SimFileSystem::~SimFileSystem() {
  Detach();
}

void SimFileSystem::SetFaultHook(Hook hook) {
  const std::scoped_lock lock(shared_->hook_mutex);
  shared_->before = std::move(hook);
}

void SimFileSystem::SetAfterHook(Hook hook) {
  const std::scoped_lock lock(shared_->hook_mutex);
  shared_->after = std::move(hook);
}

void SimFileSystem::Detach() {
  shared_->detached.store(true);
  const std::scoped_lock lock(shared_->disk.mutex_);
  std::erase_if(shared_->disk.locks_,
                [&](const auto& held) { return held.second == shared_.get(); });
}

Result<FileInfo> SimFileSystem::Stat(const std::string& path) {
  FileInfo info;
  ARROW_RETURN_NOT_OK(Perform(
      *shared_, {.kind = SimOperationKind::kStat, .path = path}, [&](SimOperation&) -> Status {
        ARROW_ASSIGN_OR_RAISE(const SimDisk::InodePtr inode, shared_->disk.Find(path));
        const size_t slash = path.find_last_of('/');
        info.name = slash == std::string::npos ? path : path.substr(slash + 1);
        info.is_directory = inode->is_directory;
        info.size = inode->bytes.size();
        return Status::OK();
      }));
  return info;
}

Result<std::vector<FileInfo>> SimFileSystem::List(const std::string& directory) {
  std::vector<FileInfo> infos;
  ARROW_RETURN_NOT_OK(Perform(
      *shared_, {.kind = SimOperationKind::kList, .path = directory}, [&](SimOperation&) -> Status {
        ARROW_ASSIGN_OR_RAISE(const SimDisk::InodePtr inode, shared_->disk.Find(directory));
        if (!inode->is_directory)
          return Error(ErrorKind::kNotFound, "'{}': not a directory", directory);
        for (const auto& [name, child] : inode->entries) {
          infos.push_back(
              {.name = name, .is_directory = child->is_directory, .size = child->bytes.size()});
        }
        return Status::OK();
      }));
  return infos;
}

Status SimFileSystem::CreateDirectory(const std::string& path) {
  return Perform(*shared_, {.kind = SimOperationKind::kCreateDirectory, .path = path},
                 [&](SimOperation&) -> Status {
                   ARROW_ASSIGN_OR_RAISE(const SimDisk::Place place, shared_->disk.FindPlace(path));
                   if (place.inode != nullptr)
                     return Error(ErrorKind::kAlreadyExists, "'{}': exists", path);
                   SimDisk::SetEntry(place.directory, place.name,
                                     shared_->disk.NewInode(/*is_directory=*/true));
                   return Status::OK();
                 });
}

Status SimFileSystem::SyncDirectory(const std::string& path) {
  return Perform(*shared_, {.kind = SimOperationKind::kSyncDirectory, .path = path},
                 [&](SimOperation&) -> Status {
                   ARROW_ASSIGN_OR_RAISE(const SimDisk::InodePtr inode, shared_->disk.Find(path));
                   if (!inode->is_directory)
                     return Error(ErrorKind::kNotFound, "'{}': not a directory", path);
                   SimDisk::SyncEntries(*inode);
                   return Status::OK();
                 });
}

Status SimFileSystem::Rename(const std::string& from, const std::string& to) {
  SimOperation operation{.kind = SimOperationKind::kRename, .path = to, .from = from};
  return Perform(*shared_, std::move(operation), [&](SimOperation& logged) -> Status {
    ARROW_ASSIGN_OR_RAISE(const SimDisk::Place source, shared_->disk.FindPlace(from));
    ARROW_ASSIGN_OR_RAISE(const SimDisk::Place target, shared_->disk.FindPlace(to));
    if (source.inode == nullptr)
      return Error(ErrorKind::kNotFound, "'{}': no such file or directory", from);
    if (source.inode == target.inode) return Status::OK();
    if (target.inode != nullptr && target.inode->is_directory != source.inode->is_directory) {
      return Error(ErrorKind::kIo, "'{}' to '{}': one is a directory", from, to);
    }
    if (target.inode != nullptr && !target.inode->entries.empty()) {
      return Error(ErrorKind::kIo, "'{}' to '{}': directory not empty", from, to);
    }
    if (source.inode->is_directory && (to + "/").starts_with(from + "/")) {
      return Error(ErrorKind::kIo, "'{}' to '{}': into itself", from, to);
    }
    logged.file = source.inode->number;
    SimDisk::SetEntry(target.directory, target.name, source.inode);
    SimDisk::SetEntry(source.directory, source.name, nullptr);
    SimDisk::Change& removal = source.directory->pending.back();
    removal.moved = source.inode;
    removal.moved_to = target.directory;
    removal.moved_to_name = target.name;
    return Status::OK();
  });
}

Status SimFileSystem::Remove(SimOperationKind kind, const std::string& path) {
  return Perform(*shared_, {.kind = kind, .path = path}, [&](SimOperation& logged) -> Status {
    const bool directory = kind == SimOperationKind::kRemoveDirectory;
    ARROW_ASSIGN_OR_RAISE(const SimDisk::Place place, shared_->disk.FindPlace(path));
    if (place.inode == nullptr)
      return Error(ErrorKind::kNotFound, "'{}': no such file or directory", path);
    if (place.inode->is_directory != directory) {
      return directory ? Error(ErrorKind::kNotFound, "'{}': not a directory", path)
                       : Error(ErrorKind::kIo, "'{}': is a directory", path);
    }
    if (!place.inode->entries.empty())
      return Error(ErrorKind::kIo, "'{}': directory not empty", path);
    logged.file = place.inode->number;
    SimDisk::SetEntry(place.directory, place.name, nullptr);
    return Status::OK();
  });
}

Status SimFileSystem::RemoveFile(const std::string& path) {
  return Remove(SimOperationKind::kRemoveFile, path);
}

Status SimFileSystem::RemoveDirectory(const std::string& path) {
  return Remove(SimOperationKind::kRemoveDirectory, path);
}

Result<std::shared_ptr<void>> SimFileSystem::LockFile(const std::string& path) {
  uint64_t number = 0;
  ARROW_RETURN_NOT_OK(
      Perform(*shared_, {.kind = SimOperationKind::kLockFile, .path = path},
              [&](SimOperation& logged) -> Status {
                ARROW_ASSIGN_OR_RAISE(SimDisk::Place place, shared_->disk.FindPlace(path));
                if (place.inode == nullptr) {
                  place.inode = shared_->disk.NewInode(/*is_directory=*/false);
                  SimDisk::SetEntry(place.directory, place.name, place.inode);
                }
                number = logged.file = place.inode->number;
                if (!shared_->disk.locks_.emplace(number, shared_.get()).second) {
                  return Error(ErrorKind::kAlreadyExists, "'{}': another process holds it", path);
                }
                return Status::OK();
              }));
  return std::shared_ptr<void>(nullptr, [shared = shared_, number](void*) {
    const std::scoped_lock lock(shared->disk.mutex_);
    const auto held = shared->disk.locks_.find(number);
    if (held != shared->disk.locks_.end() && held->second == shared.get())
      shared->disk.locks_.erase(held);
  });
}

}  // namespace sarissa::env
