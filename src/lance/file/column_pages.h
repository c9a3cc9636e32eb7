// The pages of one column: where their rows and buffers are. The layouts stay serialized until a
// page is read, so that an open file costs little. Immutable, thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "lance/file/file_footer.h"

namespace sarissa::lance {

struct PageInfo {
  uint64_t first_row = 0;
  uint64_t rows = 0;
  std::vector<FileRange> buffers;
  std::string layout;  // a serialized PageLayout
};

struct ColumnPages {
  std::vector<PageInfo> pages;
  uint64_t rows = 0;
  uint64_t bytes = 0;
};

// `metadata` is a serialized ColumnMetadata. Buffers are checked to lie inside the file.
Result<ColumnPages> ParseColumnPages(std::string_view metadata, uint64_t file_size);

}  // namespace sarissa::lance
