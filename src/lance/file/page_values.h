// Values of one leaf column that wait for their page, one per visible item (a null has a slot too).
//
// One implementation per physical layout. Small values are copied in, so that a page never keeps a
// batch alive; values that are file ranges or large are kept as slices and streamed when the page
// is written. Owned by a column writer, used by one thread. A page's values are written either as
// mini-block chunks or as a full-zip page.
#pragma once

#include <arrow/array/data.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "lance/file/column_path.h"
#include "lance/file/container_writer.h"
#include "lance/file/page_levels.h"
#include "lance/file/rep_def_builder.h"
#include "proto/lance_encodings.pb.h"

namespace sarissa::lance {

// Values of this many bytes and more do not go into mini-block chunks.
inline constexpr int64_t kFullZipBytes = 256;

// The dictionary buffer of a page.
struct PageDictionary {
  std::vector<uint8_t> bytes;
  uint64_t num_items = 0;
  pb::encodings::CompressiveEncoding encoding;
};

class PageValues {
 public:
  virtual ~PageValues() = default;
  // kUnsupported for a type without a layout.
  static Result<std::unique_ptr<PageValues>> Make(const std::shared_ptr<arrow::DataType>& type);

  // What the slots of `range` will add to bytes(), or more.
  virtual int64_t EstimateBytes(const arrow::ArrayData& leaf, SlotRange range) const = 0;
  // `valid` has one byte per slot, or is null when every slot holds a value.
  virtual Status Append(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                        const uint8_t* valid) = 0;
  virtual int64_t bytes() const = 0;
  virtual void Clear() = 0;

  virtual bool needs_full_zip() const = 0;
  virtual bool can_full_zip() const = 0;

  // Mini-block: each chunk holds num_buffers() buffers for its values.
  virtual int num_buffers() const { return 1; }
  virtual int64_t ChunkBufferSize(int buffer, int64_t first, int64_t count) const = 0;
  // Writes exactly ChunkBufferSize bytes.
  virtual void FillChunkBuffer(int buffer, int64_t first, int64_t count, uint8_t* out) const = 0;
  virtual void DescribeMiniBlock(pb::encodings::CompressiveEncoding* encoding) const = 0;
  virtual std::optional<PageDictionary> dictionary() const { return std::nullopt; }

  // Full-zip: appends all items to `out`; `row_starts` gets the offset of each row and, last, the
  // size. Only with can_full_zip().
  virtual Status WriteFullZip(const ColumnPath& path, const PageLevels& levels,
                              ContainerWriter* out, std::vector<uint64_t>* row_starts) const;
  virtual void DescribeFullZip(pb::encodings::FullZipLayout* layout) const;
  // Whether rows can be found only through the repetition index, also without lists.
  virtual bool has_variable_width() const { return false; }
};

}  // namespace sarissa::lance
