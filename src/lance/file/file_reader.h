// Reads one Lance data file, version 2.1 or 2.2: an interpreter of the page-layout and encoding
// tree.
//
// A new encoding is one node in one file under encoding/; an unknown node is refused as
// kUnsupported with its path
// ("column 3 page 0: mini_block/value_compression/general/..."). Damaged files are kCorrupt with
// column, page and what was wrong; no input makes the reader crash, over-read, or allocate more
// than the file's size warrants. Thread safe after Open. Reads only the pages (of full-zip pages:
// only the byte ranges) that hold the wanted rows; a large value comes back as a mapped file range
// where the store gives one.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lance/file/file_version.h"
#include "lance/file/schema.h"
#include "object_store/object_store.h"

namespace sarissa::lance {

// One top-level column to read: its Arrow field and the file's column index of each of its leaves,
// depth first.
struct ColumnRequest {
  std::shared_ptr<arrow::Field> field;
  std::vector<int32_t> leaf_columns;
};

class FileReader {
 public:
  virtual ~FileReader() = default;
  static Result<std::shared_ptr<FileReader>> Open(
      std::shared_ptr<object_store::ObjectReader> object);

  virtual FileVersion version() const = 0;
  // Rows per the file descriptor. The manifest's physical_rows decides for tables; this is for
  // files opened alone.
  virtual uint64_t num_rows() const = 0;
  virtual int32_t num_columns() const = 0;
  // The schema inside the file, and its metadata: for files opened alone (index files). Leaf i has
  // column i.
  virtual const Schema& schema() const = 0;
  virtual const std::map<std::string, std::string>& schema_metadata() const = 0;

  // Rows [first, first + count) of the requested columns, as one batch with exactly those fields. A
  // range past the column's end is kInvalid.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Read(std::span<const ColumnRequest> columns,
                                                           uint64_t first,
                                                           uint64_t count) const = 0;
  // The rows at `rows` (strictly ascending) of the requested columns.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> Take(
      std::span<const ColumnRequest> columns, std::span<const uint64_t> rows) const = 0;
  // Requests for all top-level columns of the file's own schema.
  virtual Result<std::vector<ColumnRequest>> AllColumns() const = 0;
  // Bytes that the pages of `column` hold in the file; for sizing scans.
  virtual Result<uint64_t> ColumnBytes(int32_t column) const = 0;
};

}  // namespace sarissa::lance
