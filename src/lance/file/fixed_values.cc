#include "lance/file/fixed_values.h"

#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include <array>
#include <cstring>

#include "env/mapped_range.h"
#include "lance/file/full_zip_items.h"

namespace sarissa::lance {
namespace {

using arrow::bit_util::BytesForBits;
using arrow::internal::CopyBitmap;

// The array that holds the items: the leaf, or the child of a fixed-size list.
const arrow::ArrayData& ItemsOf(const arrow::ArrayData& leaf, int64_t list_size) {
  return list_size == 0 ? leaf : *leaf.child_data[0];
}

}  // namespace

int64_t FixedValues::EstimateBytes(const arrow::ArrayData& leaf, SlotRange range) const {
  int64_t bits_per_value = value_bits_;
  if (has_item_validity_ ||
      (list_size_ > 0 && (leaf.MayHaveNulls() || ItemsOf(leaf, list_size_).MayHaveNulls()))) {
    bits_per_value += list_size_;
  }
  return BytesForBits(range.length * bits_per_value);
}

Status FixedValues::Append(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                           const uint8_t* valid) {
  const arrow::ArrayData& items = ItemsOf(leaf, list_size_);
  const int64_t dimension = list_size_ == 0 ? 1 : list_size_;
  const int64_t leaf_offset = list_size_ == 0 ? 0 : leaf.offset;
  if (list_size_ > 0) AppendItemValidity(leaf, slots, valid);
  for (const SlotRange& range : slots) {
    if (range.length == 0) continue;
    const arrow::Buffer& buffer = *items.buffers[1];
    const int64_t first_item = items.offset + (leaf_offset + range.start) * dimension;
    if (item_bits_ == 1) {
      const int64_t old_bits = count_ * value_bits_;
      data_.resize(static_cast<size_t>(BytesForBits(old_bits + range.length * value_bits_)));
      CopyBitmap(buffer.data(), first_item, range.length * dimension, data_.data(), old_bits);
    } else {
      const int64_t begin = first_item * (item_bits_ / 8);
      const int64_t size = range.length * (value_bits_ / 8);
      data_.insert(data_.end(), buffer.data() + begin, buffer.data() + begin + size);
      if (size >= env::kMapThresholdBytes) env::ReleaseMappedPages(buffer, begin, size);
    }
    count_ += range.length;
  }
  return Status::OK();
}

void FixedValues::StartItemValidity() {
  if (has_item_validity_) return;
  has_item_validity_ = true;
  item_validity_.assign(static_cast<size_t>(BytesForBits(count_ * list_size_)), 0xff);
}

void FixedValues::AppendItemValidity(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                                     const uint8_t* valid) {
  const arrow::ArrayData& items = *leaf.child_data[0];
  const uint8_t* bits = items.buffers[0] == nullptr ? nullptr : items.buffers[0]->data();
  if (bits == nullptr && valid == nullptr && !has_item_validity_) return;
  StartItemValidity();
  int64_t slot = 0;
  for (const SlotRange& range : slots) {
    const int64_t old_bits = (count_ + slot) * list_size_;
    const int64_t new_bits = range.length * list_size_;
    item_validity_.resize(static_cast<size_t>(BytesForBits(old_bits + new_bits)));
    if (bits == nullptr) {
      arrow::bit_util::SetBitsTo(item_validity_.data(), old_bits, new_bits, true);
    } else {
      const int64_t first_item = items.offset + (leaf.offset + range.start) * list_size_;
      CopyBitmap(bits, first_item, new_bits, item_validity_.data(), old_bits);
    }
    for (int64_t i = 0; valid != nullptr && i < range.length; ++i) {
      if (valid[slot + i] != 0) continue;
      arrow::bit_util::SetBitsTo(item_validity_.data(), old_bits + i * list_size_, list_size_,
                                 false);
    }
    slot += range.length;
  }
}

void FixedValues::Clear() {
  count_ = 0;
  data_.clear();
  has_item_validity_ = false;
  item_validity_.clear();
}

int64_t FixedValues::ChunkBufferSize(int buffer, int64_t, int64_t count) const {
  const bool is_validity = has_item_validity_ && buffer == 0;
  return BytesForBits(count * (is_validity ? list_size_ : value_bits_));
}

void FixedValues::FillChunkBuffer(int buffer, int64_t first, int64_t count, uint8_t* out) const {
  const bool is_validity = has_item_validity_ && buffer == 0;
  const std::vector<uint8_t>& source = is_validity ? item_validity_ : data_;
  const int64_t bits = is_validity ? list_size_ : value_bits_;
  if (bits % 8 == 0) {
    std::memcpy(out, source.data() + first * bits / 8, static_cast<size_t>(count * bits / 8));
    return;
  }
  const int64_t size = BytesForBits(count * bits);
  if (size > 0) out[size - 1] = 0;
  CopyBitmap(source.data(), first * bits, count * bits, out, 0);
}

void FixedValues::DescribeMiniBlock(pb::encodings::CompressiveEncoding* encoding) const {
  if (list_size_ == 0) {
    encoding->mutable_flat()->set_bits_per_value(static_cast<uint64_t>(item_bits_));
    return;
  }
  auto* list = encoding->mutable_fixed_size_list();
  list->set_items_per_value(static_cast<uint64_t>(list_size_));
  list->set_has_validity(has_item_validity_);
  list->mutable_values()->mutable_flat()->set_bits_per_value(static_cast<uint64_t>(item_bits_));
}

Status FixedValues::WriteFullZip(const ColumnPath& path, const PageLevels& levels,
                                 ContainerWriter* out, std::vector<uint64_t>* row_starts) const {
  const auto width = static_cast<size_t>(value_bits_ / 8);
  std::vector<uint8_t> validity(has_item_validity_ ? static_cast<size_t>(BytesForBits(list_size_))
                                                   : 0);
  return WriteZippedItems(path, levels, out, row_starts, [&](int64_t slot, bool) {
    if (has_item_validity_) {
      validity.back() = 0;
      CopyBitmap(item_validity_.data(), slot * list_size_, list_size_, validity.data(), 0);
      ARROW_RETURN_NOT_OK(out->Append(validity.data(), validity.size()));
    }
    return out->Append(data_.data() + static_cast<size_t>(slot) * width, width);
  });
}

void FixedValues::DescribeFullZip(pb::encodings::FullZipLayout* layout) const {
  const int64_t validity_bits = has_item_validity_ ? BytesForBits(list_size_) * 8 : 0;
  layout->set_bits_per_value(static_cast<uint32_t>(value_bits_ + validity_bits));
  DescribeMiniBlock(layout->mutable_value_compression());
}

}  // namespace sarissa::lance
