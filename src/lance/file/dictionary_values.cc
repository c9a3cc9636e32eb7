#include "lance/file/dictionary_values.h"

#include <arrow/type_traits.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace sarissa::lance {
namespace {

int64_t MaxItems(const arrow::DataType& index_type) {
  const int bits = index_type.bit_width() - (arrow::is_signed_integer(index_type.id()) ? 1 : 0);
  return bits >= 32 ? int64_t{1} << 31 : int64_t{1} << bits;
}

int OffsetWidth(const arrow::DataType& type) {
  if (arrow::is_large_binary_like(type.id())) return 8;
  return arrow::is_base_binary_like(type.id()) ? 4 : 0;
}

}  // namespace

Result<std::unique_ptr<DictionaryValues>> DictionaryValues::Make(
    const arrow::DictionaryType& type) {
  const arrow::DataType& values = *type.value_type();
  const int offset_width = OffsetWidth(values);
  int value_width = 0;
  if (offset_width == 0) {
    if (!arrow::is_fixed_width(values.id()) || values.bit_width() % 8 != 0 ||
        arrow::is_dictionary(values.id())) {
      return Error(ErrorKind::kUnsupported, "a dictionary of {} is not supported",
                   values.ToString());
    }
    value_width = values.bit_width() / 8;
  }
  return std::unique_ptr<DictionaryValues>(
      new DictionaryValues(type.index_type(), offset_width, value_width));
}

DictionaryValues::DictionaryValues(std::shared_ptr<arrow::DataType> index_type, int offset_width,
                                   int value_width)
    : index_type_(std::move(index_type)),
      index_width_(index_type_->bit_width() / 8),
      max_items_(MaxItems(*index_type_)),
      offset_width_(offset_width),
      value_width_(value_width) {}

int64_t DictionaryValues::EstimateBytes(const arrow::ArrayData&, SlotRange range) const {
  return range.length * index_width_;
}

int64_t DictionaryValues::bytes() const {
  return static_cast<int64_t>(indices_.size()) + item_bytes_ +
         static_cast<int64_t>(items_.size()) * offset_width_;
}

Status DictionaryValues::Append(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                                const uint8_t* valid) {
  if (source_ != leaf.dictionary) {
    source_ = leaf.dictionary;
    renumbered_.assign(static_cast<size_t>(source_->length), -1);
  }
  switch (index_type_->id()) {
    case arrow::Type::INT8:
      return AppendAs<int8_t>(leaf, slots, valid);
    case arrow::Type::UINT8:
      return AppendAs<uint8_t>(leaf, slots, valid);
    case arrow::Type::INT16:
      return AppendAs<int16_t>(leaf, slots, valid);
    case arrow::Type::UINT16:
      return AppendAs<uint16_t>(leaf, slots, valid);
    case arrow::Type::INT32:
      return AppendAs<int32_t>(leaf, slots, valid);
    case arrow::Type::UINT32:
      return AppendAs<uint32_t>(leaf, slots, valid);
    case arrow::Type::INT64:
      return AppendAs<int64_t>(leaf, slots, valid);
    default:
      return AppendAs<uint64_t>(leaf, slots, valid);
  }
}

template <typename Index>
Status DictionaryValues::AppendAs(const arrow::ArrayData& leaf, std::span<const SlotRange> slots,
                                  const uint8_t* valid) {
  const auto* source = leaf.GetValues<Index>(1);
  int64_t total = 0;
  for (const SlotRange& range : slots) total += range.length;
  const size_t old_size = indices_.size();
  indices_.resize(old_size + static_cast<size_t>(total) * sizeof(Index), 0);
  uint8_t* out = indices_.data() + old_size;
  for (const SlotRange& range : slots) {
    for (int64_t i = range.start; i < range.start + range.length; ++i, out += sizeof(Index)) {
      if (valid != nullptr && *valid++ == 0) continue;
      const auto position = static_cast<uint64_t>(source[i]);
      if (position >= renumbered_.size()) {
        return Error(ErrorKind::kInvalid, "index {} is outside of its dictionary of {} values",
                     source[i], renumbered_.size());
      }
      int64_t& number = renumbered_[position];
      if (number < 0) {
        ARROW_ASSIGN_OR_RAISE(number, Intern(*source_, static_cast<int64_t>(position)));
      }
      const auto narrow = static_cast<Index>(number);
      std::memcpy(out, &narrow, sizeof(Index));
    }
  }
  return Status::OK();
}

Result<int64_t> DictionaryValues::Intern(const arrow::ArrayData& dictionary, int64_t position) {
  const auto number = static_cast<int64_t>(items_.size());
  const auto [entry, added] = numbers_.emplace(ValueAt(dictionary, position), number);
  if (!added) return entry->second;
  if (number >= max_items_) {
    return Error(ErrorKind::kInvalid,
                 "more than {} distinct values, the limit of a dictionary with {} indices",
                 max_items_, index_type_->ToString());
  }
  items_.push_back(&entry->first);
  item_bytes_ += static_cast<int64_t>(entry->first.size());
  return number;
}

std::string_view DictionaryValues::ValueAt(const arrow::ArrayData& dictionary,
                                           int64_t position) const {
  if (offset_width_ == 0) {
    const auto* data = reinterpret_cast<const char*>(dictionary.buffers[1]->data());
    return {data + (dictionary.offset + position) * value_width_,
            static_cast<size_t>(value_width_)};
  }
  auto slice = [&](const auto* offsets) -> std::string_view {
    const auto length = static_cast<size_t>(offsets[position + 1] - offsets[position]);
    if (length == 0) return {};
    return {reinterpret_cast<const char*>(dictionary.buffers[2]->data()) + offsets[position],
            length};
  };
  return offset_width_ == 4 ? slice(dictionary.GetValues<int32_t>(1))
                            : slice(dictionary.GetValues<int64_t>(1));
}

void DictionaryValues::Clear() {
  indices_.clear();
  numbers_.clear();
  items_.clear();
  item_bytes_ = 0;
  source_.reset();
  renumbered_.clear();
}

int64_t DictionaryValues::ChunkBufferSize(int, int64_t, int64_t count) const {
  return count * index_width_;
}

void DictionaryValues::FillChunkBuffer(int, int64_t first, int64_t count, uint8_t* out) const {
  std::memcpy(out, indices_.data() + first * index_width_,
              static_cast<size_t>(count * index_width_));
}

void DictionaryValues::DescribeMiniBlock(pb::encodings::CompressiveEncoding* encoding) const {
  encoding->mutable_flat()->set_bits_per_value(static_cast<uint64_t>(index_width_) * 8);
}

// A block of variable values: bits per offset, start of the bytes, the offsets from 0, the bytes.
template <typename Offset>
void DictionaryValues::FillVariable(PageDictionary* out) const {
  const size_t head = (2 + items_.size() + 1) * sizeof(Offset);
  out->bytes.resize(head + static_cast<size_t>(item_bytes_));
  uint8_t* at = out->bytes.data();
  auto put = [&at](uint64_t value) {
    const auto narrow = static_cast<Offset>(value);
    std::memcpy(at, &narrow, sizeof(Offset));
    at += sizeof(Offset);
  };
  put(8 * sizeof(Offset));
  put(head);
  uint64_t end = 0;
  put(end);
  for (const std::string* item : items_) put(end += item->size());
  for (const std::string* item : items_) at = std::copy(item->begin(), item->end(), at);
  out->encoding.mutable_variable()->mutable_offsets()->mutable_flat()->set_bits_per_value(
      8 * sizeof(Offset));
}

std::optional<PageDictionary> DictionaryValues::dictionary() const {
  PageDictionary out;
  out.num_items = items_.size();
  if (offset_width_ == 4) {
    FillVariable<uint32_t>(&out);
  } else if (offset_width_ == 8) {
    FillVariable<uint64_t>(&out);
  } else {
    for (const std::string* item : items_)
      out.bytes.insert(out.bytes.end(), item->begin(), item->end());
    out.encoding.mutable_flat()->set_bits_per_value(static_cast<uint64_t>(value_width_) * 8);
  }
  return out;
}

}  // namespace sarissa::lance
