// Which tables may have rows that are in no generation: a durable superset, so that a restart finds
// them without opening the others. A table is marked when its writer is claimed, appends never
// touch the set, and the mark goes when the writer was closed with everything flushed.
//
// On disk: objects `_sarissa/<instance>/dirty/<20 digits>`, each a group of records (all that
// queued up while the one before was being written). Read in ascending order they give the set; a
// snapshot starts it anew, and lets the older ones be deleted. Format: docs/storage-format.md.
//
// Two processes with one instance id do not lose each other's marks: a number that is taken is read
// and passed, never overwritten.
//
// Thread safe. The lock is a leaf, and not held across I/O.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "env/env.h"
#include "env/future.h"
#include "object_store/object_store.h"

namespace sarissa::engine {

struct DirtySetOptions {
  object_store::ObjectStore* store = nullptr;
  const env::Env* env = nullptr;
  std::string instance_id;
};

struct DirtyTable {
  std::string name;
  int64_t created_at_ms = 0;  // tells a table from one of the same name that was deleted before it
};

// What one object holds. Exposed for tests and fuzzing.
struct DirtyGroup {
  struct Record {
    bool mark = true;
    DirtyTable table;
  };
  bool snapshot = false;  // the records are all there is, and all are marks
  bool complete = false;  // the set that the writer knew of was complete
  std::vector<Record> records;
};
std::string EncodeDirtyGroup(const DirtyGroup& group);
// Nothing if the bytes are damaged or of an unknown version.
std::optional<DirtyGroup> DecodeDirtyGroup(std::span<const uint8_t> bytes);

class DirtySet : public std::enable_shared_from_this<DirtySet> {
 public:
  // A forgotten mark may stay on disk for this long.
  static constexpr env::Duration kUnmarkDelay = std::chrono::seconds(5);

  // Blocks. Reads what a former process of this instance left. What is damaged is left where it is.
  static Result<std::shared_ptr<DirtySet>> Open(DirtySetOptions options);

  // False while marks may be missing: nothing was there, or something was damaged, and nobody has
  // looked at all tables since.
  bool complete() const;
  // Somebody looked at all tables and marked what was dirty.
  void SetComplete();
  uint64_t damaged_objects() const { return damaged_; }

  // Completes when the mark is durable.
  env::Future<env::Unit> Mark(const DirtyTable& table);
  // Forgets it at once in memory, and on disk with the next group or after kUnmarkDelay.
  void Unmark(const std::string& name);
  std::optional<DirtyTable> Find(const std::string& name) const;
  uint64_t size() const;
  std::vector<DirtyTable> All() const;  // ascending by name

  // Writes what is queued; from here on Mark gives kCancelled.
  env::Future<env::Unit> Close();

 private:
  struct Entry {
    int64_t created_at_ms = 0;
    // Valid while the mark is on its way; then it is durable.
    env::Future<env::Unit> pending;
    uint64_t number = 0;  // tells this mark from former ones of the same table
  };
  struct PendingMark {
    std::string name;
    uint64_t number = 0;
    std::shared_ptr<env::Promise<env::Unit>> promise;
  };
  struct Write {
    DirtyGroup group;
    std::vector<PendingMark> marks;
  };

  explicit DirtySet(DirtySetOptions options);

  std::string NameOf(uint64_t number) const { return prefix_ + NumberName(number); }
  static std::string NumberName(uint64_t number);
  Status ReadFrom(uint64_t number);
  void Apply(const DirtyGroup& group);  // lock held
  void StartWrite();                    // lock held
  void RunWrite();
  Write TakeWrite();  // lock held
  Status PutGroup(Write& write);
  void FinishWrite(Write write, const Status& status);
  void DeleteOlder(uint64_t snapshot);
  void StartUnmarkTimer();  // lock held

  const DirtySetOptions options_;
  const std::string prefix_;
  uint64_t damaged_ = 0;  // set by Open

  mutable std::mutex mutex_;
  bool complete_ = false;
  bool closed_ = false;
  std::map<std::string, Entry> tables_;
  uint64_t next_ = 1;    // number of the next object
  uint64_t oldest_ = 1;  // lowest number that may be there
  uint64_t records_on_disk_ = 0;
  std::vector<DirtyGroup::Record> queued_;
  std::vector<PendingMark> queued_marks_;
  uint64_t next_mark_ = 1;
  bool header_changed_ = false;  // complete_ was set and is not on disk yet
  bool snapshot_next_ = false;   // the next group leaves what is damaged behind
  bool writing_ = false;
  env::TimerId unmark_timer_ = 0;
  std::optional<env::Promise<env::Unit>> close_promise_;
  env::Future<env::Unit> close_future_;
};

}  // namespace sarissa::engine
