// The registry: a Lance table {name, uri, created_at} that says which tables exist. In the
// original's place and schema.
//
// Creating the 100,000th table costs what the first did. Changes are committed in groups: what
// queues up while one commit runs goes into the next. The rows are in memory, by name, and follow
// our own commits one by one; commits of other processes are loaded when they are seen. Small
// fragments are rewritten into larger ones in tiers, and versions nobody reads any more are
// removed, both on the side (registry_upkeep.cc).
//
// A name is registered once: a group that adds names commits only on the version it was checked
// against, so of two processes that add one name exactly one gets through.
//
// Thread safe. One lock, a leaf, not held across I/O. Calls that return a Result block on the store
// when they must look at the disk, and belong on the storage executor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/table_info.h"
#include "env/future.h"
#include "lance/table/table.h"

namespace sarissa::engine {

class Registry : public std::enable_shared_from_this<Registry> {
 public:
  // Opens or makes it. `uri_prefix` and `table_suffix` say what the uri of a name is as a rule;
  // only other ones are kept in memory.
  static Result<std::shared_ptr<Registry>> Open(lance::TableContext context,
                                                const std::string& path, std::string uri_prefix,
                                                std::string table_suffix);

  // True if Open found a torn newest version and fell back to an older one, as other software's
  // crash leaves it: rows may be missing.
  bool may_lack_rows() const { return may_lack_rows_; }

  // kAlreadyExists for a name that is registered.
  env::Future<env::Unit> Add(TableInfo info);
  // Removes all rows with this name that are there now. Removing what is not there is fine.
  env::Future<env::Unit> Remove(const std::string& name);

  // Looks at the disk first.
  Result<std::optional<TableInfo>> Find(const std::string& name);
  // Looks at the disk only when the last look is older than `max_age`.
  Result<std::optional<TableInfo>> FindRecent(const std::string& name, env::Duration max_age);
  // From memory, when the last look is not older than `max_age`; never blocks.
  std::optional<TableInfo> FindInMemory(const std::string& name, env::Duration max_age) const;
  Result<TablePage> Page(const ListRequest& request);
  // Of the newest version seen.
  uint64_t size() const;

 private:
  struct Row {
    int64_t created_at_ms = 0;
    lance::RowAddress address = 0;
    std::string uri;  // empty: the rule's
  };
  // A name is there twice when software without our check created it twice at once.
  using Rows = std::multimap<std::string, Row>;
  struct Change {
    TableInfo info;
    bool add = true;
    env::Promise<env::Unit> promise;
  };

  Registry(lance::TableContext context, std::string uri_prefix, std::string table_suffix)
      : context_(context),
        uri_prefix_(std::move(uri_prefix)),
        table_suffix_(std::move(table_suffix)) {}

  Result<Rows> Load(const lance::Table& table) const;
  Status Refresh();
  Status RefreshFrom(const std::shared_ptr<lance::Table>& known, bool long_ago);
  // Rows of the fragments that `newest` has and `known` has not, when nothing else changed.
  Result<std::optional<Rows>> LoadAppended(const lance::Table& known,
                                           const lance::Table& newest) const;
  Status AddRows(const arrow::RecordBatch& batch, Rows* rows) const;
  TableInfo InfoOf(const std::string& name, const Row& row) const;
  std::optional<TableInfo> Look(const std::string& name) const;

  void Enqueue(Change change);
  void RunCommit();
  void FinishCommit(std::vector<Change> changes, const std::vector<Status>& answers);
  Status CommitAdds(std::vector<Change>& changes, std::vector<Status>& answers);
  Status CommitRemoves(std::vector<Change>& changes);
  static Result<lance::NewFragment> WriteRows(const lance::Table& table,
                                              const std::vector<const TableInfo*>& infos);

  // --- registry_upkeep.cc: between two commits, by whoever commits
  void Upkeep();
  Status MergeSmallFragments();
  Status RemoveOldVersions();

  const lance::TableContext context_;
  const std::string uri_prefix_;
  const std::string table_suffix_;
  bool may_lack_rows_ = false;  // set by Open

  mutable std::mutex mutex_;
  std::shared_ptr<lance::Table> table_;
  Rows rows_;
  env::MonotonicTime looked_{};
  std::vector<Change> queue_;
  bool committing_ = false;

  // Used by the running commit only: so many ran.
  uint64_t commits_ = 0;
};

}  // namespace sarissa::engine
