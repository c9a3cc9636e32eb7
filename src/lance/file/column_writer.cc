#include "lance/file/column_writer.h"

#include <arrow/buffer.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "lance/file/logical_type.h"
#include "lance/file/page_layouts.h"

namespace sarissa::lance {
namespace {

// Values that exist in mini-block form only (booleans, dictionary indices) must not follow on more
// items without a value than a chunk's levels can hold; with lists around them, pages are kept
// below that.
constexpr int64_t kMaxInvisibleItems = 4096;

// A dictionary index whose dictionary entry is null is a null: the same leaf with those folded into
// its validity.
std::shared_ptr<arrow::ArrayData> FoldDictionaryNulls(const arrow::ArrayData& leaf) {
  const arrow::ArrayData& dictionary = *leaf.dictionary;
  const int64_t bits = leaf.offset + leaf.length;
  std::vector<uint8_t> validity(static_cast<size_t>(arrow::bit_util::BytesForBits(bits)), 0);
  const int width =
      static_cast<const arrow::DictionaryType&>(*leaf.type).index_type()->bit_width() / 8;
  for (int64_t i = 0; i < leaf.length; ++i) {
    const int64_t slot = leaf.offset + i;
    if (!leaf.IsValid(i)) continue;
    // Little-endian; a negative index is out of range as an unsigned one too and is refused later.
    uint64_t position = 0;
    std::memcpy(&position, leaf.buffers[1]->data() + slot * width, static_cast<size_t>(width));
    const bool known = position < static_cast<uint64_t>(dictionary.length);
    if (!known || dictionary.IsValid(static_cast<int64_t>(position)))
      arrow::bit_util::SetBit(validity.data(), slot);
  }
  auto folded = leaf.Copy();
  folded->buffers[0] = arrow::Buffer::FromVector(std::move(validity));
  folded->null_count = arrow::kUnknownNullCount;
  return folded;
}

// The offset of list slot `slot`, which may be one past the end.
int64_t ListOffset(const arrow::ArrayData& list, int64_t slot) {
  if (list.type->id() == arrow::Type::LARGE_LIST) return list.GetValues<int64_t>(1)[slot];
  return list.GetValues<int32_t>(1)[slot];
}

// The level streams together may take as much memory as the values; the format counts a page's
// items in 32 bits.
int64_t MaxPageLevels(const ColumnPath& path, int64_t page_bytes) {
  const int bytes_per_level = (path.has_rep() ? 2 : 0) + (path.has_def() ? 2 : 0);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return bytes_per_level == 0 ? kMost : std::clamp<int64_t>(page_bytes / bytes_per_level, 1, kMost);
}

}  // namespace

Result<std::unique_ptr<ColumnWriter>> ColumnWriter::Make(ColumnPath path, int column,
                                                         int64_t page_bytes,
                                                         ContainerWriter* container) {
  auto values = PageValues::Make(path.leaf_type);
  if (!values.ok()) return Annotate(values.status(), fmt::format("column '{}'", path.name()));
  return std::unique_ptr<ColumnWriter>(
      new ColumnWriter(std::move(path), column, page_bytes, container, *std::move(values)));
}

ColumnWriter::ColumnWriter(ColumnPath path, int column, int64_t page_bytes,
                           ContainerWriter* container, std::unique_ptr<PageValues> values)
    : path_(std::move(path)),
      column_(column),
      page_bytes_(page_bytes),
      max_page_levels_(MaxPageLevels(path_, page_bytes)),
      max_block_levels_(path_.has_rep() && !values->can_full_zip()
                            ? kMaxInvisibleItems / 2
                            : std::numeric_limits<int64_t>::max()),
      container_(container),
      values_(std::move(values)),
      builder_(path_) {}

Status ColumnWriter::Append(const arrow::ArrayData& top) {
  FindNodes(top);
  int64_t row = 0;
  while (row < top.length) {
    int64_t count = RowsThatFit(row, top.length - row);
    if (count == 0 && levels_.rows > 0) {
      ARROW_RETURN_NOT_OK(ClosePage());
      continue;
    }
    count = std::max<int64_t>(count, 1);
    ARROW_RETURN_NOT_OK(AppendRows(row, count));
    row += count;
    if (PageIsFull()) ARROW_RETURN_NOT_OK(ClosePage());
  }
  nodes_.clear();
  leaf_with_nulls_.reset();
  return Status::OK();
}

void ColumnWriter::FindNodes(const arrow::ArrayData& top) {
  nodes_.assign(1, &top);
  for (size_t i = 0; i + 1 < path_.layers.size(); ++i) {
    nodes_.push_back(nodes_.back()->child_data[static_cast<size_t>(path_.layers[i].child)].get());
  }
  const arrow::ArrayData& leaf = *nodes_.back();
  if (leaf.type->id() != arrow::Type::DICTIONARY || leaf.dictionary->GetNullCount() == 0) return;
  leaf_with_nulls_ = FoldDictionaryNulls(leaf);
  nodes_.back() = leaf_with_nulls_.get();
}

ColumnWriter::Estimate ColumnWriter::EstimateRows(int64_t first, int64_t count) const {
  Estimate estimate;
  estimate.levels = count;
  SlotRange range{first, count};
  for (size_t i = 0; i + 1 < path_.layers.size(); ++i) {
    const arrow::ArrayData& node = *nodes_[i];
    if (!path_.layers[i].is_list) {
      range.start += node.offset;
      continue;
    }
    if (range.length == 0) return estimate;
    const int64_t start = ListOffset(node, range.start);
    range = {start, ListOffset(node, range.start + range.length) - start};
    estimate.levels += range.length;
  }
  estimate.bytes = values_->EstimateBytes(*nodes_.back(), range);
  return estimate;
}

bool ColumnWriter::FitsPage(const Estimate& estimate) const {
  return values_->bytes() + estimate.bytes <= page_bytes_ &&
         levels_.num_levels + estimate.levels <= max_page_levels_ &&
         estimate.levels <= max_block_levels_;
}

int64_t ColumnWriter::RowsThatFit(int64_t first, int64_t count) const {
  if (FitsPage(EstimateRows(first, count))) return count;
  int64_t fits = 0;
  int64_t too_many = count;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (FitsPage(EstimateRows(first, middle)) ? fits : too_many) = middle;
  }
  return fits;
}

Status ColumnWriter::AppendRows(int64_t first, int64_t count) {
  ARROW_ASSIGN_OR_RAISE(const LevelBlock* block, builder_.Build(nodes_, first, count));
  const uint8_t* valid = block->num_null_slots == 0 ? nullptr : builder_.SlotValidity().data();
  Status appended = values_->Append(*nodes_.back(), block->slots, valid);
  if (!appended.ok()) return Annotate(appended, fmt::format("column '{}'", path_.name()));
  levels_.Append(*block, count);
  return Status::OK();
}

bool ColumnWriter::PageIsFull() const {
  if (values_->bytes() >= page_bytes_ || levels_.num_levels >= max_page_levels_) return true;
  return max_block_levels_ <= kMaxInvisibleItems && levels_.num_invisible() > kMaxInvisibleItems;
}

Status ColumnWriter::ClosePage() {
  auto write = [this]() -> Result<EncodedPage> {
    if (levels_.num_valid() == 0) return WriteConstantPage(path_, levels_, container_);
    if (values_->needs_full_zip()) return WriteFullZipPage(path_, levels_, *values_, container_);
    const auto chunks = PlanMiniBlockChunks(path_, levels_, *values_, container_->version());
    if (!chunks.empty()) return WriteMiniBlockPage(path_, levels_, *values_, chunks, container_);
    if (values_->can_full_zip()) return WriteFullZipPage(path_, levels_, *values_, container_);
    return Error(
        ErrorKind::kUnsupported,
        "column '{}': a row has more empty or null lists in a row than the format holds for {}",
        path_.name(), path_.leaf_type->ToString());
  };
  ARROW_ASSIGN_OR_RAISE(EncodedPage page, write());
  ARROW_RETURN_NOT_OK(
      container_->AddPage(column_, page.buffers, static_cast<uint64_t>(levels_.rows), page.layout));
  levels_.Clear();
  values_->Clear();
  return Status::OK();
}

Status ColumnWriter::Finish() {
  if (levels_.rows == 0) return Status::OK();
  return ClosePage();
}

}  // namespace sarissa::lance
