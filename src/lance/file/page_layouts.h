// The three page layouts: mini-block for small values, full-zip for large ones, constant where no
// item has a value.
//
// Each function writes the buffers of one page and describes it. Used by column writers, one thread
// per container.
#pragma once

#include <vector>

#include "lance/file/column_path.h"
#include "lance/file/container_writer.h"
#include "lance/file/page_levels.h"
#include "lance/file/page_values.h"
#include "proto/lance_encodings.pb.h"

namespace sarissa::lance {

struct EncodedPage {
  std::vector<BufferPlace> buffers;
  pb::encodings::PageLayout layout;
};

// A run of values and the items that belong to them.
struct MiniBlockChunk {
  int64_t first_value = 0;
  int64_t num_values = 0;
  int log2_values = 0;  // 0 for the last chunk, which holds the rest
  int64_t first_level = 0;
  int64_t num_levels = 0;
  int64_t bytes = 0;  // padded
};

// Empty when the page cannot be cut into chunks: too many items without a value in a row, or values
// too large.
std::vector<MiniBlockChunk> PlanMiniBlockChunks(const ColumnPath& path, const PageLevels& levels,
                                                const PageValues& values, FileVersion version);

Result<EncodedPage> WriteMiniBlockPage(const ColumnPath& path, const PageLevels& levels,
                                       const PageValues& values,
                                       const std::vector<MiniBlockChunk>& chunks,
                                       ContainerWriter* out);
// Needs values.can_full_zip().
Result<EncodedPage> WriteFullZipPage(const ColumnPath& path, const PageLevels& levels,
                                     const PageValues& values, ContainerWriter* out);
// Needs levels.num_valid() == 0.
Result<EncodedPage> WriteConstantPage(const ColumnPath& path, const PageLevels& levels,
                                      ContainerWriter* out);

}  // namespace sarissa::lance
