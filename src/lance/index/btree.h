// The Lance B-tree scalar index: page_data.lance {values, ids} sorted by (value, id), nulls first,
// NaN last; and page_lookup.lance {min, max, null_count, page_idx}, one row per `batch_size` rows
// of page_data. Used as `_pk_index` of a generation (ids are row offsets, every physical row is in
// it) and as an index of a base table (ids are row addresses).
#pragma once

#include <arrow/array.h>
#include <arrow/scalar.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lance/file/file_version.h"
#include "object_store/object_store.h"

namespace sarissa::lance {

struct BTreeFiles {
  uint64_t page_data_bytes = 0;
  uint64_t page_lookup_bytes = 0;
};

struct BTreeOptions {
  FileVersion version = kFileV21;
  uint64_t batch_size = 8192;  // the original's `_pk_index`; column indices of pylance use 4096
};

// Sorts and writes `<directory>/page_data.lance` and `<directory>/page_lookup.lance`. `values` and
// `ids` have one entry per row.
Result<BTreeFiles> WriteBTree(object_store::ObjectStore& store, const std::string& directory,
                              const std::shared_ptr<arrow::Array>& values,
                              const std::vector<uint64_t>& ids, const BTreeOptions& options);

// Keeps the lookup table in memory (one row per 4-8 thousand rows), reads pages of page_data on
// demand. Thread safe.
class BTreeReader {
 public:
  virtual ~BTreeReader() = default;
  static Result<std::shared_ptr<BTreeReader>> Open(object_store::ObjectStore& store,
                                                   const std::string& directory);
  virtual const std::shared_ptr<arrow::DataType>& value_type() const = 0;
  virtual uint64_t num_rows() const = 0;
  // Ids of all rows whose value equals `value`, ascending. A null scalar finds the nulls.
  virtual Result<std::vector<uint64_t>> Find(const arrow::Scalar& value) const = 0;
};

}  // namespace sarissa::lance
