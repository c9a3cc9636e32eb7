// The log of one shard: numbered objects, one per group of appends, created by put-if-absent.
//
// Positions are 1-based and dense and never reused (S1). A present object is a whole entry. Thread
// safe; calls block. The per-shard layout is the first implementation of a log; a log that many
// shards share fits the same calls.
#pragma once

#include <arrow/record_batch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "memwal/log_entry.h"
#include "object_store/object_store.h"

namespace sarissa::memwal {

class ShardLog {
 public:
  ShardLog(object_store::ObjectStore& store, std::string table, ShardId shard)
      : store_(store), table_(std::move(table)), shard_(shard) {}

  // What one attempt to append came to.
  enum class Outcome {
    kLanded,    // this very entry is durable at `position`
    kTaken,     // another entry is there: somebody else writes this log
    kAbsent,    // nothing is there; the same position may be tried again
    kUnproven,  // our bytes are there but not known to be durable; the same position must be tried
                // again to prove it
    kUnknown,   // the store does not say; nobody may write past it
  };
  struct Attempt {
    Outcome outcome;
    Status cause;  // why it did not land; OK when it did
  };

  // One attempt. A lost or failed answer is settled by reading the object back and comparing the
  // nonce. Bytes that are visible are not yet durable; a store answers kAlreadyExists only for
  // durable objects, so the next attempt settles kUnproven.
  Attempt Append(LogPosition position, const LogEntryHeader& header,
                 const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches);

  // Puts a sentinel of `epoch` at the first free position from `from` on; returns where it landed.
  // `passed_over`: see EncodeSentinel.
  Result<LogPosition> PutSentinel(Epoch epoch, LogPosition from,
                                  std::optional<LogPosition> passed_over = {});

  // Nothing when there is no entry at `position`.
  Result<std::optional<DecodedLogEntry>> Read(LogPosition position);

  // See IsTornLogEntry.
  Result<bool> IsTorn(LogPosition position);
  std::string NameOf(LogPosition position) const;

  // All positions present, ascending.
  Result<std::vector<LogPosition>> List();

 private:
  Attempt Settle(LogPosition position, uint64_t nonce, Status cause);

  object_store::ObjectStore& store_;
  std::string table_;
  ShardId shard_;
};

}  // namespace sarissa::memwal
