// The registry: a Lance table {name, uri, created_at} that says which tables exist. In the
// original's place and schema.
//
// Thread safe. Reads first move to the newest version, so commits of other processes are seen.
// Commits rebase on each other, so no lock is held while one runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/catalog.h"
#include "lance/table/table.h"

namespace sarissa::engine {

class Registry {
 public:
  static Result<std::unique_ptr<Registry>> Open(lance::TableContext context,
                                                const std::string& path);

  // True if Open found a torn newest version and fell back to an older one, as other software's
  // crash leaves it: rows may be missing.
  bool may_lack_rows() const { return may_lack_rows_; }
  Result<std::optional<TableInfo>> Find(const std::string& name);
  Result<std::map<std::string, TableInfo>> All();
  Status Add(const TableInfo& info);
  // Removing what is not there is fine.
  Status Remove(const std::string& name);

 private:
  struct Row {
    TableInfo info;
    lance::RowAddress address;
  };
  struct State {
    std::shared_ptr<lance::Table> table;
    std::multimap<std::string, Row>
        rows;  // a name may be there twice when two processes created it at once
  };

  Registry(std::shared_ptr<const State> state, bool may_lack_rows)
      : may_lack_rows_(may_lack_rows), state_(std::move(state)) {}
  static Result<std::shared_ptr<const State>> Load(std::shared_ptr<lance::Table> table);
  Result<std::shared_ptr<const State>> Refresh();
  Status Adopt(std::shared_ptr<lance::Table> table);

  const bool may_lack_rows_;
  std::mutex mutex_;  // leaf; guards the pointer only
  std::shared_ptr<const State> state_;
};

}  // namespace sarissa::engine
