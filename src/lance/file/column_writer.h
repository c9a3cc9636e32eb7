// Writes one leaf column: collects rows and closes pages.
//
// A page is closed when its values or its levels reach the page size; a row never straddles two
// pages. Memory is a page's worth of small values and levels; see PageValues for large ones. Owned
// by a file writer, used by one thread. Unusable after an error.
#pragma once

#include <arrow/array/data.h>

#include <memory>
#include <vector>

#include "lance/file/column_path.h"
#include "lance/file/container_writer.h"
#include "lance/file/page_levels.h"
#include "lance/file/page_values.h"
#include "lance/file/rep_def_builder.h"

namespace sarissa::lance {

class ColumnWriter {
 public:
  // `container` outlives the column writer.
  static Result<std::unique_ptr<ColumnWriter>> Make(ColumnPath path, int column, int64_t page_bytes,
                                                    ContainerWriter* container);

  // All rows of `top`, an array of the top-level column. kInvalid names the column.
  Status Append(const arrow::ArrayData& top);
  // Closes the last page.
  Status Finish();

 private:
  // What rows would add to the page.
  struct Estimate {
    int64_t bytes = 0;
    int64_t levels = 0;
  };

  ColumnWriter(ColumnPath path, int column, int64_t page_bytes, ContainerWriter* container,
               std::unique_ptr<PageValues> values);

  void FindNodes(const arrow::ArrayData& top);
  Estimate EstimateRows(int64_t first, int64_t count) const;
  bool FitsPage(const Estimate& estimate) const;
  // Rows from `first` that fit the page; 0 when not even one does.
  int64_t RowsThatFit(int64_t first, int64_t count) const;
  Status AppendRows(int64_t first, int64_t count);
  bool PageIsFull() const;
  Status ClosePage();

  const ColumnPath path_;
  const int column_;
  const int64_t page_bytes_;
  const int64_t max_page_levels_;
  const int64_t max_block_levels_;
  ContainerWriter* const container_;
  std::unique_ptr<PageValues> values_;
  RepDefBuilder builder_;
  PageLevels levels_;
  // Arrays along the path, during Append.
  std::vector<const arrow::ArrayData*> nodes_;
  std::shared_ptr<arrow::ArrayData> leaf_with_nulls_;
};

}  // namespace sarissa::lance
