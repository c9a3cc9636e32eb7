// One fragment of a table version, opened for a projection: its data files (one per group of
// columns), its deleted rows.
//
// A projected column comes from the one file that has its leaves; a column that no file has is all
// null. Immutable, thread safe. Functions block on the store.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lance/file/file_reader.h"
#include "lance/file/schema.h"
#include "lance/table/open_files.h"

namespace sarissa::lance {

class Fragment {
 public:
  // `projection` has the table's field ids. kUnsupported for a column whose leaves lie in several
  // files; kCorrupt when file and manifest do not fit each other.
  static Result<std::shared_ptr<const Fragment>> Open(OpenFiles& files,
                                                      const pb::table::DataFragment& fragment,
                                                      const Schema& projection);

  uint64_t id() const { return id_; }
  uint64_t physical_rows() const { return physical_rows_; }
  const DeletionVector& deletions() const { return *deletions_; }

  // Rows [first, first + count) with the projection's columns, deleted ones included.
  Result<std::shared_ptr<arrow::RecordBatch>> Read(uint64_t first, uint64_t count) const;
  // The rows at `offsets`, strictly ascending and below physical_rows().
  Result<std::shared_ptr<arrow::RecordBatch>> Take(std::span<const uint64_t> offsets) const;
  // Bytes that a row of each projected column takes in the files, on average; 0 for a column
  // without a file.
  Result<std::vector<uint64_t>> BytesPerRow() const;

 private:
  // What one data file contributes.
  struct Source {
    std::shared_ptr<FileReader> reader;
    std::vector<ColumnRequest> requests;
    std::vector<int> columns;  // positions in the projection
  };

  Fragment() = default;
  Status AddSources(OpenFiles& files, const pb::table::DataFragment& fragment,
                    const Schema& projection);
  // Puts the sources' columns into projection order and fills in the columns that no file has.
  template <typename ReadSource>
  Result<std::shared_ptr<arrow::RecordBatch>> Assemble(int64_t rows, const ReadSource& read) const;

  uint64_t id_ = 0;
  uint64_t physical_rows_ = 0;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Source> sources_;
  std::shared_ptr<const DeletionVector> deletions_;
};

}  // namespace sarissa::lance
