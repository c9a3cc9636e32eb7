// All tables of one data directory: the registry, the cache of open tables, the dirty set, the
// sweeper.
//
// Thread safe. Calls that return a Future return at once; List blocks on the object store and
// belongs on the storage executor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strong_type.h"
#include "engine/table.h"
#include "engine/table_info.h"
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

  // Open tables at most; at least 1.
  uint64_t cache_capacity = 2000;
  // How long a caller waits for a table to be opened, or for a place in the cache.
  env::Duration open_timeout = std::chrono::seconds(120);
  // How long an eviction waits for the flush of what the table holds.
  env::Duration drain_deadline = std::chrono::seconds(30);
  // The background walk over all tables after a start.
  bool reconcile = true;
  uint64_t reconcile_tables_per_second = 2000;
  // What looks half made or half deleted is judged when it still does after this.
  env::Duration reconcile_settle = std::chrono::seconds(10);
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

struct SweeperStatus {
  uint64_t passes = 0;
  uint64_t running = 0;    // tables that are being opened and flushed for their age
  uint64_t flushed = 0;    // tables left by a former process or an eviction that are flushed by now
  uint64_t timed_out = 0;  // attempts that took too long
};

struct ReconciliationStatus {
  enum class State { kOff, kRunning, kDone, kFailed };
  State state = State::kOff;
  uint64_t examined = 0;       // folders and registry rows looked at
  uint64_t registered = 0;     // tables on disk that got their registry row
  uint64_t removed = 0;        // half-made tables without a row of data
  uint64_t without_files = 0;  // registry rows without files: reported, kept
  uint64_t unreadable = 0;     // tables that could not be looked at
  uint64_t dirty = 0;          // tables whose log has rows in no generation
};

struct CatalogStatus {
  uint64_t tables = 0;  // registered
  uint64_t resident = 0;
  uint64_t leased = 0;
  uint64_t opening = 0;
  uint64_t draining = 0;
  uint64_t waiting = 0;  // callers that wait for a place in the cache
  uint64_t capacity = 0;
  // Open ones with rows in no generation, and marked ones that are not open, which may have some.
  uint64_t dirty = 0;
  uint64_t marked = 0;                            // in the dirty set: what a restart would look at
  std::optional<env::Duration> oldest_unflushed;  // age, of the open ones
  uint64_t evictions = 0;
  uint64_t evictions_undrained = 0;
  SweeperStatus sweeper;
  ReconciliationStatus reconciliation;
  CatalogHealth health;
};

class Catalog {
 public:
  virtual ~Catalog() = default;

  // Opens or creates the registry; opens no table. `store` and `env` outlive the catalog and every
  // table.
  static Result<std::shared_ptr<Catalog>> Open(object_store::ObjectStore& store,
                                               const env::Env& env, CatalogOptions options);

  // The pointer that Find and Create give is the lease: while somebody holds it, the table is in
  // use and is not evicted.
  //
  // kAlreadyExists when registered. Adopts a table that is on disk without a registry row.
  virtual env::Future<std::shared_ptr<Table>> Create(const std::string& name) = 0;
  // kNotFound when not registered. Opens the table if it is cold (replaying its log); concurrent
  // first touches share one open. kOverloaded when the cache has no place in time.
  virtual env::Future<std::shared_ptr<Table>> Find(const std::string& name) = 0;
  // Registered tables; opens none.
  virtual Result<TablePage> List(const ListRequest& request) = 0;
  // Stops the writer, moves the files aside, then removes the registry row. kNotFound when not
  // registered. May be repeated after a failure.
  virtual env::Future<env::Unit> Delete(const std::string& name) = 0;

  virtual std::string UriOf(const std::string& name) const = 0;
  virtual uint64_t open_tables() const = 0;

  // Of the open tables.
  virtual CatalogHealth Health() const = 0;
  // From memory.
  virtual CatalogStatus Describe() const = 0;

  // Drains the table's writer and drops the handle; the next Find opens it again. A fenced writer
  // is remembered as such, a cleanly closed one goes on under its epoch, a failed one is claimed
  // anew and so healed. Waits for those who hold the table. kFailedWriter, and the table stays
  // open, when the drain did not end within `deadline`. Nothing to do for a table that is not open.
  virtual env::Future<env::Unit> Evict(const std::string& name, env::Duration deadline) = 0;

  // Seals and flushes every open table and stops; after it every call fails with kCancelled. The
  // result names the tables whose rows are only in the log.
  virtual Status Close(env::Duration deadline) = 0;
};

}  // namespace sarissa::engine
