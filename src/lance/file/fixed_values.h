// Fixed-width values: numbers, booleans, decimals, fixed binary, and fixed-size lists of those.
#pragma once

#include <memory>
#include <vector>

#include "lance/file/page_values.h"

namespace sarissa::lance {

class FixedValues : public PageValues {
 public:
  // `item_bits` per item (a multiple of 8, or 1), `list_size` items per value; 0 when the type is
  // no fixed-size list.
  FixedValues(int64_t item_bits, int64_t list_size)
      : item_bits_(item_bits),
        list_size_(list_size),
        value_bits_(item_bits * (list_size == 0 ? 1 : list_size)) {}

  int64_t EstimateBytes(const arrow::ArrayData& leaf, SlotRange range) const override;
  Status Append(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                const uint8_t* valid) override;
  int64_t bytes() const override {
    return static_cast<int64_t>(data_.size() + item_validity_.size());
  }
  void Clear() override;

  bool needs_full_zip() const override {
    return can_full_zip() && value_bits_ >= kFullZipBytes * 8;
  }
  bool can_full_zip() const override { return item_bits_ % 8 == 0; }

  int num_buffers() const override { return has_item_validity_ ? 2 : 1; }
  int64_t ChunkBufferSize(int buffer, int64_t first, int64_t count) const override;
  void FillChunkBuffer(int buffer, int64_t first, int64_t count, uint8_t* out) const override;
  void DescribeMiniBlock(pb::encodings::CompressiveEncoding* encoding) const override;

  Status WriteFullZip(const ColumnPath& path, const PageLevels& levels, ContainerWriter* out,
                      std::vector<uint64_t>* row_starts) const override;
  void DescribeFullZip(pb::encodings::FullZipLayout* layout) const override;

 private:
  void AppendItemValidity(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                          const uint8_t* valid);
  void StartItemValidity();

  const int64_t item_bits_;
  const int64_t list_size_;
  const int64_t value_bits_;
  int64_t count_ = 0;
  std::vector<uint8_t> data_;
  // Fixed-size lists with a null item anywhere in the page: one bit per item. Made when the first
  // null shows up.
  bool has_item_validity_ = false;
  std::vector<uint8_t> item_validity_;
};

}  // namespace sarissa::lance
