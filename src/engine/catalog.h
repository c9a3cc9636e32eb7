// All tables of one data directory: the registry, the open handles, the flush sweeper.
//
// Thread safe. Calls block on the object store and belong on the storage executor, except where
// they return a Future.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strong_type.h"
#include "engine/table.h"
#include "env/env.h"
#include "env/future.h"
#include "lance/file/file_version.h"
#include "lance/file/schema.h"
#include "object_store/object_store.h"

namespace sarissa::engine {

struct CatalogOptions {
  // Name of the registry table in the data directory: "_registry.rollout.lance".
  std::string registry_path = "_registry.rollout.lance";
  // A table lives in `<name><table_suffix>`.
  std::string table_suffix = ".rollout.lance";
  // Prefix of the `uri` that callers see and the registry holds: the data directory as it was
  // given, with a trailing '/'.
  std::string uri_prefix;
  // Schema of every table.
  lance::Schema schema;
  lance::FileVersion file_version = lance::kFileV21;
  // Decides the shard that this process writes.
  std::string instance_id = "default";

  // A memtable is frozen and flushed when its rows are this old (0 = never by age), or when it
  // reaches the size.
  env::Duration flush_interval = std::chrono::seconds(30);
  int64_t memtable_bytes = 64 << 20;
  int64_t memtable_rows = 100'000;
  // A flush that keeps failing makes the shard failed after this.
  env::Duration flush_fail_deadline = std::chrono::seconds(60);
  // How long a caller of Flush waits at most; longer than the deadline above, so that it learns
  // what became of the flush.
  env::Duration flush_wait = std::chrono::seconds(90);
};

struct TableInfo {
  std::string name;
  std::string uri;
  int64_t created_at_ms = 0;
};

// A shard that needs an operator's eye.
struct ShardTrouble {
  enum class Kind { kRetrying, kFailed, kFenced };
  std::string table;
  Kind kind = Kind::kRetrying;
  Status cause;
};

struct CatalogHealth {
  std::vector<ShardTrouble> troubles;  // by table name
  uint64_t retrying = 0;
  uint64_t failed = 0;
  uint64_t fenced = 0;
  int64_t unflushed_bytes = 0;  // memory of all memtables
};

class Catalog {
 public:
  virtual ~Catalog() = default;

  // Opens or creates the registry; opens no table. `store` and `env` outlive the catalog and every
  // table.
  static Result<std::shared_ptr<Catalog>> Open(object_store::ObjectStore& store,
                                               const env::Env& env, CatalogOptions options);

  // kAlreadyExists when registered. Adopts a table that is on disk without a registry row.
  virtual Result<std::shared_ptr<Table>> Create(const std::string& name) = 0;
  // kNotFound when not registered. Opens the table if it is cold (replaying its log); concurrent
  // first touches share one open.
  virtual Result<std::shared_ptr<Table>> Find(const std::string& name) = 0;
  // All registered tables, ascending by name.
  virtual Result<std::vector<TableInfo>> List() = 0;
  // Stops the writer, removes the files, then the registry row. kNotFound when not registered. May
  // be repeated after a failure.
  virtual Status Delete(const std::string& name) = 0;

  virtual std::string UriOf(const std::string& name) const = 0;
  virtual uint64_t open_tables() const = 0;

  // Of the open tables.
  virtual CatalogHealth Health() const = 0;

  // Drains the table's writer and drops the handle; the next Find opens it again. A fenced writer
  // is remembered as such, a cleanly closed one goes on under its epoch, a failed one is claimed
  // anew and so healed. kFailedWriter, and the table stays open, when a drain that could still
  // succeed did not end within `deadline`. Nothing to do for a table that is not open.
  virtual Status Evict(const std::string& name, env::Duration deadline) = 0;

  // Seals and flushes every open table and stops; after it every call fails with kCancelled. The
  // result names the tables whose rows are only in the log.
  virtual Status Close(env::Duration deadline) = 0;
};

}  // namespace sarissa::engine
