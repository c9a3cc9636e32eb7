// One experiment: the LSM view of one table (base, generations of every shard, frozen and active
// memtables).
//
// Thread safe. Owned by the Catalog; callers hold a shared_ptr while they use it. Reads block on
// the object store and belong on the storage executor; Append and Flush return at once and complete
// later.
//
// Guarantees: a row whose Append completed is durable and seen by every Scan or Get that starts
// afterwards; one key is one row (the newest); a Scan is one snapshot; physical order is arrival
// order, and a key that is written again moves to the end.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "engine/predicate.h"
#include "env/future.h"
#include "env/memory_budget.h"
#include "lance/table/table.h"

namespace sarissa::engine {

struct AppendReceipt {
  TableVersion base_version;
  ShardId shard;
  LogPosition position;  // the log entry that holds the last row
};

struct FlushReport {
  // What this flush sealed; empty when nothing was waiting in the active memtable.
  std::optional<Generation> sealed_generation;
  // Rows of all generations that the flush waited for: the sealed one and those before it.
  uint64_t rows = 0;
};

struct ReadOptions {
  // Top-level columns of the result, in this order; unset = all. Columns that only the filter needs
  // are not returned.
  std::optional<std::vector<std::string>> columns;
  std::shared_ptr<const Predicate> filter;  // null = all rows
  // Applied after hiding and filtering.
  uint64_t offset = 0;
  std::optional<uint64_t> limit;
  // A batch of the stream is cut at either.
  uint64_t batch_rows = 1024;
  uint64_t batch_bytes = 4 << 20;
};

// A forgotten pin must not hide new rows from everybody for ever.
inline constexpr env::Duration kPinLimit = std::chrono::minutes(15);

class Table {
 public:
  virtual ~Table() = default;

  virtual const std::string& name() const = 0;
  // Newest base version that this handle has seen, or the pinned one.
  virtual TableVersion version() const = 0;
  // Columns as the user sees them (no internal ones).
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;

  // All batches of one call become durable and visible together, or none does. Batches have exactly
  // schema(); a dictionary column may bring a different dictionary per batch. `charge` covers the
  // batches' memory and is kept as long as the memtable pins them. Errors: kInvalid (a dictionary
  // column would pass 128 distinct values in this table), kFenced, kFailedWriter, kOverloaded,
  // kOutcomeUnknown, kNotFound (the table was deleted meanwhile).
  virtual env::Future<AppendReceipt> Append(
      std::vector<std::shared_ptr<arrow::RecordBatch>> batches, env::Reservation charge) = 0;

  // Completes when every row acknowledged before the call is in a generation that the shard
  // manifest names. Bounded: kDeadline with the trouble of the flush when it takes longer than
  // CatalogOptions::flush_wait; kFenced or kFailedWriter when the shard stopped. The rows stay
  // durable and visible either way.
  virtual env::Future<FlushReport> Flush() = 0;

  virtual Result<std::unique_ptr<lance::BatchStream>> Scan(const ReadOptions& options) = 0;

  // Pins the reads of every caller to base version `version`, without rows that are in no base
  // table yet: the original's checkout, whose client has no identity. Appends go on. Without a
  // version the pin ends; it also ends by itself after kPinLimit. kNotFound: no such version.
  // Returns the version that is read from now on.
  virtual Result<TableVersion> Checkout(std::optional<TableVersion> version) = 0;

  // The newest row with this primary key as a batch of one row, or null. Large values come as
  // mapped file ranges.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Get(
      std::string_view key, const std::optional<std::vector<std::string>>& columns) = 0;
};

}  // namespace sarissa::engine
