// Strings and binary values. `Offset` is int32_t, or int64_t for the large types: the width of the
// source's and the file's offsets.
#pragma once

#include <memory>
#include <vector>

#include "lance/file/page_values.h"

namespace sarissa::lance {

template <typename Offset>
class VariableValues : public PageValues {
 public:
  int64_t EstimateBytes(const arrow::ArrayData& leaf, SlotRange range) const override;
  Status Append(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                const uint8_t* valid) override;
  int64_t bytes() const override {
    return static_cast<int64_t>(ends_.empty() ? 0 : ends_.back()) +
           static_cast<int64_t>(ends_.size()) * kOffsetBytes;
  }
  void Clear() override;

  bool needs_full_zip() const override { return longest_ >= kFullZipBytes; }
  bool can_full_zip() const override { return true; }

  int64_t ChunkBufferSize(int buffer, int64_t first, int64_t count) const override;
  void FillChunkBuffer(int buffer, int64_t first, int64_t count, uint8_t* out) const override;
  void DescribeMiniBlock(pb::encodings::CompressiveEncoding* encoding) const override;

  Status WriteFullZip(const ColumnPath& path, const PageLevels& levels, ContainerWriter* out,
                      std::vector<uint64_t>* row_starts) const override;
  void DescribeFullZip(pb::encodings::FullZipLayout* layout) const override;
  bool has_variable_width() const override { return true; }

 private:
  static constexpr int64_t kOffsetBytes = sizeof(Offset);

  // A value that is not in bytes_ but streamed from where it lies.
  struct Streamed {
    int64_t slot;
    std::shared_ptr<arrow::Buffer> value;
  };

  uint64_t EndBefore(int64_t slot) const {
    return slot == 0 ? 0 : ends_[static_cast<size_t>(slot) - 1];
  }

  std::vector<uint64_t> ends_;  // cumulative lengths, streamed values included
  std::vector<uint8_t> bytes_;  // of the values that are not streamed, back to back
  std::vector<Streamed> streamed_;
  int64_t longest_ = 0;
};

extern template class VariableValues<int32_t>;
extern template class VariableValues<int64_t>;

}  // namespace sarissa::lance
