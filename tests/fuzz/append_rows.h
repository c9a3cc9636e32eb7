// Checks rows that an append decoder made, and gives them as JSON records.
#pragma once

#include <arrow/array/array_base.h>

#include <string>

#include "rollout/json_canonical.h"
#include "rollout/record_decoder.h"
#include "rollout/record_encoder.h"
#include "rollout/record_schema.h"
#include "tests/fuzz/fuzz_input.h"

namespace sarissa::rollout {

// Aborts unless the batches are what the storage expects of an append.
inline std::string CheckedJson(const DecodedAppend& decoded) {
  std::string json = R"({"records":[)";
  uint64_t rows = 0;
  for (const auto& batch : decoded.batches) {
    const Status valid = batch->ValidateFull();
    SARISSA_CHECK(valid.ok(), "{}", valid.ToString());
    SARISSA_CHECK(batch->schema()->Equals(*RecordSchema(), true));
    for (int i = 0; i < kColumnCount; ++i) {
      SARISSA_CHECK(RecordSchema()->field(i)->nullable() || batch->column(i)->null_count() == 0);
    }
    if (rows > 0) json += ',';
    rows += static_cast<uint64_t>(batch->num_rows());
    SARISSA_CHECK(EncodeRecords(*batch, 0, batch->num_rows(), json).ok());
  }
  json += "]}";
  SARISSA_CHECK(rows == decoded.ids.size() && rows > 0);
  SARISSA_CHECK(IsJson(json), "{}", json);
  return json;
}

}  // namespace sarissa::rollout
