#include "lance/file/variable_values.h"

#include <algorithm>
#include <cstring>

#include "env/mapped_range.h"
#include "lance/file/full_zip_items.h"

namespace sarissa::lance {
namespace {

// A value in a mapped file is worth a slice of its own from here on; below, copying is cheaper.
constexpr int64_t kStreamMappedBytes = 16 << 10;

}  // namespace

template <typename Offset>
int64_t VariableValues<Offset>::EstimateBytes(const arrow::ArrayData& leaf, SlotRange range) const {
  if (range.length == 0) return 0;
  const auto* offsets = leaf.GetValues<Offset>(1);
  return static_cast<int64_t>(offsets[range.start + range.length]) - offsets[range.start] +
         range.length * kOffsetBytes;
}

template <typename Offset>
Status VariableValues<Offset>::Append(const arrow::ArrayData& leaf,
                                      std::span<const SlotRange> slots, const uint8_t* valid) {
  const auto* offsets = leaf.GetValues<Offset>(1);
  const std::shared_ptr<arrow::Buffer>& buffer = leaf.buffers[2];
  const uint8_t* data = buffer == nullptr ? nullptr : buffer->data();
  const bool mapped = buffer != nullptr && env::IsMapped(*buffer);
  const int64_t stream_from = mapped ? kStreamMappedBytes : env::kMapThresholdBytes;
  uint64_t end = ends_.empty() ? 0 : ends_.back();
  size_t slot = ends_.size();
  size_t total = slot;
  for (const SlotRange& range : slots) total += static_cast<size_t>(range.length);
  ends_.resize(total);
  const uint8_t* is_valid = valid;
  for (const SlotRange& range : slots) {
    if (range.length == 0) continue;
    // Bytes [run, offset of i) are values to copy; a run ends at garbage below a null and at a
    // streamed value.
    int64_t run = offsets[range.start];
    auto copy_run = [&](int64_t until) { bytes_.insert(bytes_.end(), data + run, data + until); };
    for (int64_t i = range.start; i < range.start + range.length; ++i, ++slot) {
      const int64_t begin = offsets[i];
      const int64_t length = offsets[i + 1] - begin;
      const bool skip = is_valid != nullptr && *is_valid++ == 0;
      if (length != 0 && (skip || length >= stream_from)) {
        if (begin > run) copy_run(begin);
        run = begin + length;
        if (!skip)
          streamed_.push_back(
              {static_cast<int64_t>(slot), arrow::SliceBuffer(buffer, begin, length)});
      }
      if (!skip) {
        end += static_cast<uint64_t>(length);
        longest_ = std::max(longest_, length);
      }
      ends_[slot] = end;
    }
    const int64_t first = offsets[range.start];
    const int64_t last = offsets[range.start + range.length];
    if (last > run) copy_run(last);
    if (mapped && last - first >= env::kMapThresholdBytes)
      env::ReleaseMappedPages(*buffer, first, last - first);
  }
  return Status::OK();
}

template <typename Offset>
void VariableValues<Offset>::Clear() {
  ends_.clear();
  bytes_.clear();
  streamed_.clear();
  longest_ = 0;
}

template <typename Offset>
int64_t VariableValues<Offset>::ChunkBufferSize(int, int64_t first, int64_t count) const {
  const auto size = static_cast<int64_t>(EndBefore(first + count) - EndBefore(first));
  return (count + 1) * kOffsetBytes + (size + kOffsetBytes - 1) / kOffsetBytes * kOffsetBytes;
}

template <typename Offset>
void VariableValues<Offset>::FillChunkBuffer(int, int64_t first, int64_t count,
                                             uint8_t* out) const {
  // Offsets count from the start of this buffer, so the first one is the size of the offsets.
  const uint64_t head = static_cast<uint64_t>(count + 1) * sizeof(Offset);
  const uint64_t base = EndBefore(first);
  auto put = [out](int64_t index, uint64_t value) {
    const auto offset = static_cast<Offset>(value);
    std::memcpy(out + index * kOffsetBytes, &offset, sizeof(Offset));
  };
  put(0, head);
  for (int64_t i = 0; i < count; ++i)
    put(i + 1, head + ends_[static_cast<size_t>(first + i)] - base);
  const uint64_t size = EndBefore(first + count) - base;
  if (size > 0) std::memcpy(out + head, bytes_.data() + base, size);
  // Readers refuse a buffer that is not a multiple of the offset width.
  const auto end = static_cast<int64_t>(head + size);
  std::memset(out + end, 0, static_cast<size_t>(ChunkBufferSize(0, first, count) - end));
}

template <typename Offset>
void VariableValues<Offset>::DescribeMiniBlock(pb::encodings::CompressiveEncoding* encoding) const {
  encoding->mutable_variable()->mutable_offsets()->mutable_flat()->set_bits_per_value(
      8 * sizeof(Offset));
}

template <typename Offset>
Status VariableValues<Offset>::WriteFullZip(const ColumnPath& path, const PageLevels& levels,
                                            ContainerWriter* out,
                                            std::vector<uint64_t>* row_starts) const {
  const uint8_t* copied = bytes_.data();
  auto streamed = streamed_.begin();
  return WriteZippedItems(
      path, levels, out, row_starts, [&](int64_t slot, bool is_valid) -> Status {
        if (!is_valid) return Status::OK();
        const uint64_t length = ends_[static_cast<size_t>(slot)] - EndBefore(slot);
        ARROW_RETURN_NOT_OK(out->Append(&length, sizeof(Offset)));
        if (streamed != streamed_.end() && streamed->slot == slot)
          return out->AppendBuffer(*(streamed++)->value);
        const uint8_t* value = copied;
        copied += length;
        return out->Append(value, length);
      });
}

template <typename Offset>
void VariableValues<Offset>::DescribeFullZip(pb::encodings::FullZipLayout* layout) const {
  layout->set_bits_per_offset(8 * sizeof(Offset));
  DescribeMiniBlock(layout->mutable_value_compression());
}

template class VariableValues<int32_t>;
template class VariableValues<int64_t>;

}  // namespace sarissa::lance
