// Writes full-zip pages: the zipped items, and the repetition index where rows cannot be found by
// arithmetic.
#include <limits>

#include "lance/file/full_zip_items.h"
#include "lance/file/page_layouts.h"

namespace sarissa::lance {
namespace {

// Offsets are as wide as the last one needs; a reader infers the width from the buffer's size and
// the number of rows.
int OffsetWidth(uint64_t largest) {
  if (largest <= std::numeric_limits<uint8_t>::max()) return 1;
  if (largest <= std::numeric_limits<uint16_t>::max()) return 2;
  return largest <= std::numeric_limits<uint32_t>::max() ? 4 : 8;
}

Result<BufferPlace> WriteRowStarts(const std::vector<uint64_t>& row_starts, ContainerWriter* out) {
  const auto width = static_cast<size_t>(OffsetWidth(row_starts.back()));
  ARROW_RETURN_NOT_OK(out->BeginBuffer());
  for (const uint64_t& start : row_starts) ARROW_RETURN_NOT_OK(out->Append(&start, width));
  return out->EndBuffer();
}

}  // namespace

Result<EncodedPage> WriteFullZipPage(const ColumnPath& path, const PageLevels& levels,
                                     const PageValues& values, ContainerWriter* out) {
  EncodedPage page;
  std::vector<uint64_t> row_starts;
  row_starts.reserve(static_cast<size_t>(levels.rows) + 1);
  ARROW_RETURN_NOT_OK(out->BeginBuffer());
  ARROW_RETURN_NOT_OK(values.WriteFullZip(path, levels, out, &row_starts));
  page.buffers.push_back(out->EndBuffer());
  if (path.has_rep() || values.has_variable_width()) {
    ARROW_ASSIGN_OR_RAISE(BufferPlace place, WriteRowStarts(row_starts, out));
    page.buffers.push_back(place);
  }
  const ControlWordShape shape(path);
  pb::encodings::FullZipLayout* layout = page.layout.mutable_full_zip();
  layout->set_bits_rep(shape.bits_rep);
  layout->set_bits_def(shape.bits_def);
  values.DescribeFullZip(layout);
  layout->set_num_items(static_cast<uint32_t>(levels.num_levels));
  layout->set_num_visible_items(static_cast<uint32_t>(levels.num_slots));
  for (auto layer : path.declared) layout->add_layers(layer);
  return page;
}

}  // namespace sarissa::lance
