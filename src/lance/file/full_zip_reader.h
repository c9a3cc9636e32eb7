// Pages of large values: each entry is a control word (its levels), perhaps a length, and the
// value.
//
// Buffer 0: control word = rep << bits_def | def in 0, 1, 2 or 4 bytes; variable-width values
// follow as u32 or u64 length and bytes, only where def is 0; fixed-width values follow wherever
// there is a slot, null or not. Buffer 1, needed for variable widths and for lists: rows + 1
// offsets into buffer 0, as wide as its size says. Only the bytes of wanted rows are read. A value
// of env::kMapThresholdBytes and more that is stored as it is comes back as a slice of what the
// store gave, while it is the only value of its array that is not empty.
#pragma once

#include <memory>
#include <vector>

#include "lance/file/page_reader.h"

namespace sarissa::lance {

class FullZipReader final : public PageReader {
 public:
  static Result<std::unique_ptr<PageReader>> Make(const PageSource& source,
                                                  const pb::encodings::FullZipLayout& layout);
  Status Read(std::span<const RowRange> rows, LeafSink* sink) override;

 private:
  FullZipReader(const PageSource& source, PageLevels levels)
      : source_(source), levels_(std::move(levels)) {}

  Status SetWidths(const pb::encodings::FullZipLayout& layout);
  Status SetFixed(const pb::encodings::FullZipLayout& layout);
  // Bytes of buffer 0 that hold the rows.
  Result<FileRange> Locate(const RowRange& rows) const;
  Status ReadRows(const RowRange& rows, LeafSink* sink);
  // Takes the control word at `*at` off; fills in the entry's levels.
  Status TakeControlWord(Bytes bytes, uint64_t* at, uint16_t* rep, uint16_t* def) const;
  Status TakeVariable(const std::shared_ptr<arrow::Buffer>& bytes, uint64_t* at, LeafSink* sink);
  Status TakeFixed(Bytes bytes, uint64_t* at, bool valid, LeafSink* sink) const;

  PageSource source_;
  PageLevels levels_;
  uint32_t bits_rep_ = 0;
  uint32_t bits_def_ = 0;
  uint64_t control_bytes_ = 0;
  // Variable width.
  bool variable_ = false;
  uint64_t length_bytes_ = 0;
  std::unique_ptr<ItemDecoder> items_;
  // Fixed width: of each value first its items' validity, then the items.
  uint64_t items_per_value_ = 1;
  uint64_t bits_per_item_ = 0;
  uint64_t validity_bytes_ = 0;
  uint64_t value_bytes_ = 0;
  // Width of an entry of the repetition index; 0 if there is none.
  uint64_t index_bytes_ = 0;
};

}  // namespace sarissa::lance
