// Rows for memwal tests: a small keyed table {id utf8 key, value int64, blob large_binary?}.
#pragma once

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lance/file/schema.h"
#include "memwal/memtable.h"
#include "memwal/storage_schema.h"

namespace sarissa::memwal::testing {

using KeyedRows = std::vector<std::pair<std::string, int64_t>>;

inline std::shared_ptr<arrow::Schema> KeyedSchema() {
  return arrow::schema(
      {arrow::field("id", arrow::utf8(), false,
                    arrow::key_value_metadata({lance::kPrimaryKeyMetadata}, {"true"})),
       arrow::field("value", arrow::int64(), true)});
}

inline lance::Schema KeyedBase() {
  return lance::Schema::FromArrow(*KeyedSchema()).ValueOrDie();
}
inline lance::Schema KeyedStorage() {
  return StorageSchema(KeyedBase()).ValueOrDie();
}

inline std::shared_ptr<arrow::RecordBatch> UserBatch(const KeyedRows& rows) {
  arrow::StringBuilder ids;
  arrow::Int64Builder values;
  for (const auto& [id, value] : rows) {
    SARISSA_CHECK(ids.Append(id).ok() && values.Append(value).ok(), "out of memory");
  }
  return arrow::RecordBatch::Make(KeyedBase().arrow_schema(), static_cast<int64_t>(rows.size()),
                                  {ids.Finish().ValueOrDie(), values.Finish().ValueOrDie()});
}

inline std::shared_ptr<arrow::RecordBatch> StorageBatch(const KeyedRows& rows) {
  return WithLiveTombstones(UserBatch(rows), KeyedStorage()).ValueOrDie();
}

// Newest value per key of what a view shows.
inline std::map<std::string, int64_t> Visible(const MemtableView& view) {
  std::map<std::string, int64_t> visible;
  for (const auto& held : view.batches()) {
    const auto& ids = static_cast<const arrow::StringArray&>(*held->batch->column(0));
    const auto& values = static_cast<const arrow::Int64Array&>(*held->batch->column(1));
    for (int64_t row = 0; row < held->batch->num_rows(); ++row) {
      if (!view.Superseded(*held, row)) {
        const bool fresh = visible.emplace(ids.GetString(row), values.Value(row)).second;
        SARISSA_CHECK(fresh, "key {} is shown twice", ids.GetString(row));
      }
    }
  }
  return visible;
}

}  // namespace sarissa::memwal::testing
