// Arrow append bodies: an IPC stream whose columns are a subset of RecordSchema(), with the rules
// and defaults of the JSON form.
//
// A null, or a column that is not there, is what an absent key is in JSON. Types: arrow_columns.h.
// The stream is validated in full and must end with its marker. Errors are kInvalid and name the
// column, or the batch, the row and the column: "batch 0, row 3: reward: not a finite number".
// Nothing is returned unless the whole body is valid.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "base/error.h"
#include "env/clock.h"
#include "rollout/record_decoder.h"

namespace sarissa::rollout {

struct ArrowDecodeOptions {
  env::WallTime now;  // created_at of records that bring none
  // Bounds what the body makes of itself: its buffers once decompressed, and the values of all rows
  // once dictionaries are resolved. Rows are bounded by the number that a JSON body of this size
  // could hold.
  int64_t max_bytes = int64_t{1} << 30;
  // Called before that many bytes more are allocated; its error ends the decoding. May be empty.
  std::function<Status(int64_t bytes)> charge;
};

// Thread safe. The result holds no part of `body`.
Result<DecodedAppend> DecodeArrowAppend(const std::shared_ptr<arrow::Buffer>& body,
                                        const ArrowDecodeOptions& options);

}  // namespace sarissa::rollout
