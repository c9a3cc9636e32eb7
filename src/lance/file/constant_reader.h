// Pages without stored values: all null, or one value everywhere, with or without levels.
//
// The value is in the layout, or in a first buffer that holds the Arrow buffers of a one-element
// array behind their number and sizes (u32 each). Then either no buffer or two follow: repetition
// and definition levels, plain u16 unless the layout names a compression.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "lance/file/page_reader.h"

namespace sarissa::lance {

class ConstantReader final : public PageReader {
 public:
  static Result<std::unique_ptr<PageReader>> Make(const PageSource& source,
                                                  const pb::encodings::ConstantLayout& layout);
  Status Read(std::span<const RowRange> rows, LeafSink* sink) override;

 private:
  ConstantReader(const PageSource& source, PageLevels levels)
      : source_(source), levels_(std::move(levels)) {}

  Status SetInlineValue(const std::string& value);
  Status ReadValueBuffer();
  Status ReadLevels(const pb::encodings::ConstantLayout& layout, uint64_t rep_buffer);
  Status AppendSlots(Levels def, uint64_t slots, LeafSink* sink);

  PageSource source_;
  PageLevels levels_;
  std::optional<ValueBlock> value_;  // one value
  std::string value_bytes_;
  std::shared_ptr<arrow::Buffer> value_buffer_;
  uint64_t offsets_[2] = {0, 0};
  std::vector<uint16_t> rep_;
  std::vector<uint16_t> def_;
};

}  // namespace sarissa::lance
