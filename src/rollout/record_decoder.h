// JSON append bodies into Arrow, straight into builders in one strict pass, with the exact rules
// and defaults of the wire contract. Errors are kInvalid and name the record's index and the field:
// "records[3].sequence_order: expected an integer". Nothing is returned unless the whole body is
// valid.
#pragma once

#include <arrow/buffer.h>
#include <arrow/record_batch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "env/clock.h"

namespace sarissa::rollout {

// A binary payload that arrived beside the JSON (multipart part), by index into `records`. Large
// ones are mapped file ranges.
using PayloadParts = std::map<uint64_t, std::shared_ptr<arrow::Buffer>>;

struct DecodeOptions {
  env::WallTime now;  // created_at of records that bring none
  // In a multipart body payload_size must equal the part, and a record with payload_size must have
  // bytes.
  bool multipart = false;
};

struct DecodedAppend {
  // Rows in request order; RecordSchema() exactly. A row whose payload is at least
  // env::kMapThresholdBytes is a batch of its own whose payload buffer is the part itself, not a
  // copy.
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::vector<std::string> ids;  // request order, duplicates kept
  uint64_t payload_bytes = 0;
};

// `body` is the JSON object {"records":[...]} (for multipart: the `metadata` part). Thread safe.
Result<DecodedAppend> DecodeAppend(std::string_view body, const PayloadParts& parts,
                                   const DecodeOptions& options);

}  // namespace sarissa::rollout
