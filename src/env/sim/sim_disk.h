// A disk that remembers what was synced, for crash tests. Survives its processes; see
// sim_file_system.h for their view of it.
//
// Model
//  - A file is an inode with bytes, of which a prefix is synced (files only grow).
//  - A directory has entries. Changes to them (links, removals, renames, new directories) are
//  pending until the directory is
//    synced. A directory that was synced is still lost when the entry for it in its parent was not.
//  - After a failed file sync the unsynced bytes count as clean, as on Linux: later syncs succeed
//  and make nothing durable.
//  - A rename is never lost on both sides.
// Thread safe; its mutex is a leaf and not held while a task gives way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "env/file_system.h"
#include "env/random.h"

namespace sarissa::env {

enum class SimOperationKind {
  kCreateUnnamed,
  kAppend,
  kSync,
  kLink,
  kOpenRead,
  kRead,
  kMap,
  kStat,
  kList,
  kCreateDirectory,
  kSyncDirectory,
  kRename,
  kRemoveFile,
  kRemoveDirectory,
  kLockFile,
};
std::string_view SimOperationName(SimOperationKind kind);
// True if the operation changes the disk or what is durable on it.
bool IsMutation(SimOperationKind kind);

struct SimOperation {
  SimOperationKind kind = SimOperationKind::kStat;
  // The path the call was about; for a file without a name, its directory followed by "/#" and the
  // file number.
  std::string path = {};
  uint64_t bytes = 0;
  // Second path: kRename names the source here.
  std::string from = {};
  // File number: ties appends, syncs and links of one file together; 0 where there is none.
  uint64_t file = 0;
  bool failed = false;  // by a fault or by itself
};

class SimDisk {
 public:
  enum class CrashMode {
    kDropAllUnsynced,  // power loss, the disk lost all it could
    kKeepAll,          // kill -9: the page cache survives, and is still unsynced
    kRandom,           // power loss: per file and per entry, lost, kept or torn
  };

  SimDisk();
  ~SimDisk();
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;

  // The state after a power loss or kill. Processes must be dead (their file systems detached):
  // open files vanish.
  void Crash(Random& random, CrashMode mode);

  // The disk as it is now, what is unsynced included, with no process on it: a crash image. Files
  // without a name are left out, as no crash leaves them. Made in a hook of SimFileSystem at each
  // mutating call, the images of one run are all the states that a crash in it can meet.
  std::unique_ptr<SimDisk> Clone() const;
  // As if the machine stopped inside the append that gave file `file` its last `appended` bytes:
  // the first `kept` of them are there; with `garbage` the others are there too and hold anything.
  // Nothing when no name leads to the file, or when the bytes are synced.
  void TearAppend(uint64_t file, uint64_t appended, uint64_t kept, Random* garbage = nullptr);

  // All calls since the start or the last ClearOperations, in order.
  std::vector<SimOperation> operations() const;
  void ClearOperations();
  // False keeps no list, only counts: for long runs.
  void RecordOperations(bool record);
  // Mutating calls since the start: crash tests stop at the n-th.
  uint64_t mutations() const;

  // What the disk holds for tests to look at or damage, without logging: all files by path.
  std::map<std::string, std::vector<uint8_t>> Files() const;
  // Replaces the bytes of an existing file (bit rot); they count as synced.
  Status Damage(const std::string& path, std::vector<uint8_t> bytes);
  // Hash of all paths (directories too) and bytes: what processes can see, not what is synced.
  uint64_t StateHash() const;

 private:
  friend class SimFileSystem;
  friend class SimReadableFile;
  friend class SimWritableFile;

  struct Inode;
  using InodePtr = std::shared_ptr<Inode>;
  // One change to one name of a directory that is not synced yet.
  struct Change {
    std::string name;
    InodePtr inode;  // null: removed
    // For the removal half of a rename: what moved, and where to.
    InodePtr moved;
    InodePtr moved_to;
    std::string moved_to_name;
  };
  struct Inode {
    uint64_t number = 0;
    bool is_directory = false;
    std::vector<uint8_t> bytes;
    uint64_t synced_size = 0;
    bool lost_pages = false;
    std::map<std::string, InodePtr> entries;
    std::map<std::string, InodePtr> synced_entries;
    std::vector<Change> pending;
  };
  struct Place {
    InodePtr directory;
    std::string name;
    InodePtr inode;  // null: nothing has the name
  };

  InodePtr NewInode(bool is_directory);
  Result<InodePtr> Find(const std::string& path) const;
  Result<Place> FindPlace(const std::string& path) const;
  static void SetEntry(const InodePtr& directory, const std::string& name, InodePtr inode);
  static void SyncEntries(Inode& directory);
  // Every directory that the disk holds now or may hold after a crash, in a fixed order.
  std::vector<InodePtr> AllDirectories() const;
  static void CrashEntries(const std::vector<InodePtr>& directories, Random& random,
                           CrashMode mode);
  static void CrashBytes(Inode& file, Random& random, CrashMode mode);
  static void CollectFiles(const Inode& directory, const std::string& path,
                           std::map<std::string, std::vector<uint8_t>>& files);
  static InodePtr FindFile(const Inode& directory, uint64_t file);
  static uint64_t HashTree(const Inode& directory, uint64_t hash);
  void Record(const SimOperation& operation);

  mutable std::mutex mutex_;
  uint64_t last_inode_ = 0;  // before root_, which takes the first number
  InodePtr root_;
  bool record_ = true;
  uint64_t mutations_ = 0;
  std::vector<SimOperation> operations_;
  std::map<uint64_t, const void*> locks_;  // inode number -> holder
};

}  // namespace sarissa::env
