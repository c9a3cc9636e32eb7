#include "env/sim/sim_disk.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

namespace sarissa::env {
namespace {

std::vector<std::string> SplitPath(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return parts;
}

uint64_t HashWord(uint64_t hash, uint64_t word) {
  constexpr uint64_t kFnvPrime = 0x100000001B3;
  hash = (hash ^ word) * kFnvPrime;
  return hash ^ (hash >> 29);
}

uint64_t HashBytes(std::span<const uint8_t> bytes, uint64_t hash) {
  hash = HashWord(hash, bytes.size());
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t size = std::min(bytes.size(), sizeof(word));
    std::memcpy(&word, bytes.data(), size);
    hash = HashWord(hash, word);
    bytes = bytes.subspan(size);
  }
  return hash;
}

}  // namespace

std::string_view SimOperationName(SimOperationKind kind) {
  switch (kind) {
    case SimOperationKind::kCreateUnnamed:
      return "create_unnamed";
    case SimOperationKind::kAppend:
      return "append";
    case SimOperationKind::kSync:
      return "sync";
    case SimOperationKind::kLink:
      return "link";
    case SimOperationKind::kOpenRead:
      return "open_read";
    case SimOperationKind::kRead:
      return "read";
    case SimOperationKind::kMap:
      return "map";
    case SimOperationKind::kStat:
      return "stat";
    case SimOperationKind::kList:
      return "list";
    case SimOperationKind::kCreateDirectory:
      return "create_directory";
    case SimOperationKind::kSyncDirectory:
      return "sync_directory";
    case SimOperationKind::kRename:
      return "rename";
    case SimOperationKind::kRemoveFile:
      return "remove_file";
    case SimOperationKind::kRemoveDirectory:
      return "remove_directory";
    case SimOperationKind::kLockFile:
      return "lock_file";
  }
  return "unknown";
}

bool IsMutation(SimOperationKind kind) {
  switch (kind) {
    case SimOperationKind::kOpenRead:
    case SimOperationKind::kRead:
    case SimOperationKind::kMap:
    case SimOperationKind::kStat:
    case SimOperationKind::kList:
      return false;
    default:
      return true;
  }
}

SimDisk::SimDisk() : root_(NewInode(/*is_directory=*/true)) {}

SimDisk::~SimDisk() {
  // Renamed entries may tie inodes into a cycle.
  for (const InodePtr& directory : AllDirectories()) {
    directory->entries.clear();
    directory->synced_entries.clear();
    directory->pending.clear();
  }
}

SimDisk::InodePtr SimDisk::NewInode(bool is_directory) {
  auto inode = std::make_shared<Inode>();
  inode->number = ++last_inode_;
  inode->is_directory = is_directory;
  return inode;
}

Result<SimDisk::InodePtr> SimDisk::Find(const std::string& path) const {
  InodePtr at = root_;
  for (const std::string& part : SplitPath(path)) {
    const auto found = at->entries.find(part);
    if (found == at->entries.end())
      return Error(ErrorKind::kNotFound, "'{}': no such file or directory", path);
    at = found->second;
  }
  return at;
}

Result<SimDisk::Place> SimDisk::FindPlace(const std::string& path) const {
  std::vector<std::string> parts = SplitPath(path);
  if (parts.empty()) return Error(ErrorKind::kIo, "'{}': the root of the disk", path);
  Place place;
  place.name = std::move(parts.back());
  parts.pop_back();
  place.directory = root_;
  for (const std::string& part : parts) {
    const auto found = place.directory->entries.find(part);
    if (found == place.directory->entries.end() || !found->second->is_directory) {
      return Error(ErrorKind::kNotFound, "'{}': no directory '{}'", path, part);
    }
    place.directory = found->second;
  }
  const auto found = place.directory->entries.find(place.name);
  if (found != place.directory->entries.end()) place.inode = found->second;
  return place;
}

void SimDisk::SetEntry(const InodePtr& directory, const std::string& name, InodePtr inode) {
  if (inode == nullptr) {
    directory->entries.erase(name);
  } else {
    directory->entries[name] = inode;
  }
  Change change;
  change.name = name;
  change.inode = std::move(inode);
  directory->pending.push_back(std::move(change));
}

void SimDisk::SyncEntries(Inode& directory) {
  for (const Change& change : directory.pending) {
    if (change.moved_to == nullptr || change.moved_to.get() == &directory) continue;
    // The other half of a rename goes with this one.
    auto& target = *change.moved_to;
    const auto arrival =
        std::find_if(target.pending.begin(), target.pending.end(), [&](const Change& other) {
          return other.name == change.moved_to_name && other.inode == change.moved;
        });
    if (arrival == target.pending.end()) continue;
    target.synced_entries[change.moved_to_name] = change.moved;
    target.pending.erase(arrival);
  }
  directory.pending.clear();
  directory.synced_entries = directory.entries;
}

std::vector<SimDisk::InodePtr> SimDisk::AllDirectories() const {
  std::vector<InodePtr> found;
  std::set<uint64_t> seen;
  const auto add = [&](const InodePtr& inode) {
    if (inode != nullptr && inode->is_directory && seen.insert(inode->number).second)
      found.push_back(inode);
  };
  add(root_);
  for (size_t i = 0; i < found.size(); ++i) {
    const InodePtr directory = found[i];
    for (const auto& [name, inode] : directory->entries) add(inode);
    for (const auto& [name, inode] : directory->synced_entries) add(inode);
    for (const Change& change : directory->pending) {
      add(change.inode);
      add(change.moved_to);
      add(change.moved);
    }
  }
  return found;
}

void SimDisk::CrashEntries(const std::vector<InodePtr>& directories, Random& random,
                           CrashMode mode) {
  for (const InodePtr& directory : directories) {
    directory->entries = directory->synced_entries;
    if (mode == CrashMode::kDropAllUnsynced) continue;
    std::map<std::string, std::vector<const Change*>> by_name;
    for (const Change& change : directory->pending) by_name[change.name].push_back(&change);
    for (const auto& [name, changes] : by_name) {
      const uint64_t kept = random.Below(changes.size() + 1);
      if (kept == 0) continue;
      const InodePtr& inode = changes[kept - 1]->inode;
      if (inode == nullptr) {
        directory->entries.erase(name);
      } else {
        directory->entries[name] = inode;
      }
    }
  }
  for (const InodePtr& directory : directories) {
    for (const Change& change : directory->pending) {
      if (change.moved == nullptr || directory->entries.contains(change.name)) continue;
      const auto arrival = change.moved_to->entries.find(change.moved_to_name);
      if (arrival != change.moved_to->entries.end() && arrival->second == change.moved) continue;
      directory->entries[change.name] = change.moved;
    }
  }
  for (const InodePtr& directory : directories) {
    directory->pending.clear();
    directory->synced_entries = directory->entries;
  }
}

void SimDisk::CrashBytes(Inode& file, Random& random, CrashMode mode) {
  const uint64_t unsynced = file.bytes.size() - file.synced_size;
  uint64_t kept = 0;
  if (unsynced > 0 && mode == CrashMode::kRandom) {
    enum Fate : uint64_t { kDropped, kKept, kPrefix, kGarbage, kFates };
    const uint64_t fate = random.Below(kFates);
    if (fate == kKept) kept = unsynced;
    if (fate == kPrefix || fate == kGarbage) kept = random.Below(unsynced + 1);
    if (fate == kGarbage) {
      // The length reached the disk, some of the pages did not.
      const uint64_t good = random.Below(kept + 1);
      const bool zeros = random.Below(2) == 0;
      for (uint64_t i = file.synced_size + good; i < file.synced_size + kept; ++i) {
        file.bytes[i] = zeros ? 0 : static_cast<uint8_t>(random.Next());
      }
    }
  }
  file.bytes.resize(file.synced_size + kept);
  file.synced_size = file.bytes.size();
  file.lost_pages = false;
}

void SimDisk::Crash(Random& random, CrashMode mode) {
  const std::scoped_lock lock(mutex_);
  locks_.clear();
  if (mode == CrashMode::kKeepAll) return;
  const std::vector<InodePtr> directories = AllDirectories();
  CrashEntries(directories, random, mode);
  std::set<uint64_t> seen;
  for (const InodePtr& directory : AllDirectories()) {
    for (const auto& [name, inode] : directory->entries) {
      if (!inode->is_directory && seen.insert(inode->number).second)
        CrashBytes(*inode, random, mode);
    }
  }
}

void SimDisk::Record(const SimOperation& operation) {
  if (IsMutation(operation.kind)) ++mutations_;
  if (record_) operations_.push_back(operation);
}

std::vector<SimOperation> SimDisk::operations() const {
  const std::scoped_lock lock(mutex_);
  return operations_;
}

void SimDisk::ClearOperations() {
  const std::scoped_lock lock(mutex_);
  operations_.clear();
}

void SimDisk::RecordOperations(bool record) {
  const std::scoped_lock lock(mutex_);
  record_ = record;
}

uint64_t SimDisk::mutations() const {
  const std::scoped_lock lock(mutex_);
  return mutations_;
}

void SimDisk::CollectFiles(const Inode& directory, const std::string& path,
                           std::map<std::string, std::vector<uint8_t>>& files) {
  for (const auto& [name, inode] : directory.entries) {
    if (inode->is_directory) {
      CollectFiles(*inode, path + "/" + name, files);
    } else {
      files[path + "/" + name] = inode->bytes;
    }
  }
}

std::map<std::string, std::vector<uint8_t>> SimDisk::Files() const {
  const std::scoped_lock lock(mutex_);
  std::map<std::string, std::vector<uint8_t>> files;
  CollectFiles(*root_, "", files);
  return files;
}

Status SimDisk::Damage(const std::string& path, std::vector<uint8_t> bytes) {
  const std::scoped_lock lock(mutex_);
  ARROW_ASSIGN_OR_RAISE(const InodePtr inode, Find(path));
  if (inode->is_directory) return Error(ErrorKind::kInvalid, "'{}' is a directory", path);
  inode->bytes = std::move(bytes);
  inode->synced_size = inode->bytes.size();
  return Status::OK();
}

uint64_t SimDisk::StateHash() const {
  const std::scoped_lock lock(mutex_);
  return HashTree(*root_, 0xCBF29CE484222325);
}

uint64_t SimDisk::HashTree(const Inode& directory, uint64_t hash) {
  for (const auto& [name, inode] : directory.entries) {
    hash = HashBytes({reinterpret_cast<const uint8_t*>(name.data()), name.size()}, hash);
    hash = inode->is_directory ? HashTree(*inode, hash) : HashBytes(inode->bytes, hash);
  }
  // Ends the directory: the same names one level up are another tree.
  return HashWord(hash, directory.entries.size());
}

SimDisk::InodePtr SimDisk::FindFile(const Inode& directory, uint64_t file) {
  for (const auto& [name, inode] : directory.entries) {
    if (inode->number == file) return inode;
    if (!inode->is_directory) continue;
    if (InodePtr found = FindFile(*inode, file)) return found;
  }
  return nullptr;
}

void SimDisk::TearAppend(uint64_t file, uint64_t appended, uint64_t kept, Random* garbage) {
  const std::scoped_lock lock(mutex_);
  const InodePtr inode = FindFile(*root_, file);
  if (inode == nullptr || inode->is_directory) return;
  const uint64_t unsynced = inode->bytes.size() - inode->synced_size;
  if (appended > unsynced || kept > appended) return;
  const uint64_t good = inode->bytes.size() - appended + kept;
  if (garbage == nullptr) {
    inode->bytes.resize(good);
    return;
  }
  for (uint64_t i = good; i < inode->bytes.size(); ++i)
    inode->bytes[i] = static_cast<uint8_t>(garbage->Next());
}

std::unique_ptr<SimDisk> SimDisk::Clone() const {
  const std::scoped_lock lock(mutex_);
  auto clone = std::make_unique<SimDisk>();
  std::unordered_map<const Inode*, InodePtr> copies;
  const std::function<InodePtr(const InodePtr&)> copy = [&](const InodePtr& from) -> InodePtr {
    if (from == nullptr) return nullptr;
    InodePtr& made = copies[from.get()];
    if (made != nullptr) return made;
    const auto to = made = std::make_shared<Inode>();
    to->number = from->number;
    to->is_directory = from->is_directory;
    to->bytes = from->bytes;
    to->synced_size = from->synced_size;
    to->lost_pages = from->lost_pages;
    for (const auto& [name, inode] : from->entries) to->entries.emplace(name, copy(inode));
    for (const auto& [name, inode] : from->synced_entries)
      to->synced_entries.emplace(name, copy(inode));
    for (const Change& change : from->pending) {
      to->pending.push_back({change.name, copy(change.inode), copy(change.moved),
                             copy(change.moved_to), change.moved_to_name});
    }
    return to;
  };
  clone->root_ = copy(root_);
  clone->last_inode_ = last_inode_;
  clone->record_ = record_;
  clone->mutations_ = mutations_;
  return clone;
}

}  // namespace sarissa::env
