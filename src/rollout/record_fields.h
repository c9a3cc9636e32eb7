// The value of one field of one record, from the JSON into its column: the type, range and null
// rules of every column. Errors are kInvalid without the place (record and field), which the caller
// knows. One thread at a time.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rollout/json_cursor.h"
#include "rollout/record_columns.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {

// The column that a JSON key names; none for keys that are ignored.
std::optional<Column> FindColumn(std::string_view key);

// Bytes of a `binary_payload` string; `large` instead of `small` from env::kMapThresholdBytes on.
struct InlinePayload {
  std::string small;
  std::shared_ptr<arrow::Buffer> large;
};

class RecordFieldReader {
 public:
  explicit RecordFieldReader(RecordColumns& columns) : columns_(columns) {}

  // Takes one value into `column`. False if the value was null and the column takes its default
  // instead. binary_payload is only kept for the end of the row, payload_size is kept as well.
  Result<bool> Read(Column column, JsonCursor& cursor);

  void BeginRow();
  const std::optional<int64_t>& payload_size() const { return payload_size_; }
  // Null when the record brought no bytes of its own.
  std::optional<InlinePayload>& inline_payload() { return inline_payload_; }

 private:
  Status ReadValue(Column column, JsonCursor& cursor);
  Status ReadText(Column column, JsonCursor& cursor);
  Status ReadMetadata(JsonCursor& cursor);
  Status ReadPayload(JsonCursor& cursor);
  Status ReadPayloadSize(JsonCursor& cursor);
  Status ReadRelationships(JsonCursor& cursor);
  Status ReadRelationship(JsonCursor& cursor);

  RecordColumns& columns_;
  std::optional<int64_t> payload_size_;
  std::optional<InlinePayload> inline_payload_;
  // Kept between values for their capacity.
  std::string scratch_;
  std::string target_id_;
  std::string relation_;
  std::string metadata_;
  std::vector<int32_t> int32_items_;
  std::vector<int8_t> int8_items_;
  std::vector<float> float_items_;
};

}  // namespace sarissa::rollout
