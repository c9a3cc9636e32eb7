#include "lance/file/dictionary_slots.h"

#include <arrow/type_traits.h>
#include <arrow/util/checked_cast.h>

#include "lance/file/slot_index.h"

namespace sarissa::lance {
namespace {

const arrow::DictionaryType& TypeOf(const LeafShape& shape) {
  return arrow::internal::checked_cast<const arrow::DictionaryType&>(*shape.type);
}

LeafShape PlainShape(const LeafShape& shape) {
  LeafShape plain;
  plain.type = TypeOf(shape).value_type();
  plain.values = shape.values;
  return plain;
}

uint64_t MaxValues(const arrow::DataType& index_type) {
  const auto bits = static_cast<uint64_t>(index_type.bit_width());
  const uint64_t used = arrow::is_signed_integer(index_type.id()) ? bits - 1 : bits;
  return used >= 32 ? uint64_t{1} << 31 : uint64_t{1} << used;
}

}  // namespace

DictionarySlots::DictionarySlots(const LeafShape& shape)
    : type_(shape.type),
      index_bytes_(static_cast<uint64_t>(TypeOf(shape).index_type()->bit_width()) / 8),
      max_values_(MaxValues(*TypeOf(shape).index_type())),
      values_(SlotBuilder::Make(PlainShape(shape), 0)) {}

Result<int64_t> DictionarySlots::IndexOf(const ValueBlock& block, uint64_t i) {
  Bytes value;
  if (block.offset_bytes != 0) {
    value = block.Variable(i);
  } else if (block.bits_per_item % 8 == 0) {
    value = block.Fixed(i);
  } else {
    return Error(ErrorKind::kUnsupported, "{} is not read here", type_->ToString());
  }
  std::string key(reinterpret_cast<const char*>(value.data()), value.size());
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  if (known_.size() >= max_values_) {
    return Error(ErrorKind::kUnsupported,
                 "the rows have more than {} distinct values, which {} has no room for",
                 max_values_, type_->ToString());
  }
  ARROW_RETURN_NOT_OK(values_->AppendBlock(block, i, 1, {}));
  const auto index = static_cast<int64_t>(known_.size());
  known_.emplace(std::move(key), index);
  return index;
}

Status DictionarySlots::PushIndices(int64_t index, uint64_t count) {
  if (count > kMaxExpandedBytes / 8) {
    return Error(ErrorKind::kInvalid, "{} rows are too many for one read", count);
  }
  ARROW_RETURN_NOT_OK(indices_.Reserve(static_cast<int64_t>(count * index_bytes_)));
  for (uint64_t i = 0; i < count; ++i) {
    indices_.UnsafeAppend(&index, static_cast<int64_t>(index_bytes_));
  }
  slots_ += count;
  return Status::OK();
}

Status DictionarySlots::AppendBlock(const ValueBlock& block, uint64_t first, uint64_t count,
                                    Validity valid) {
  if (block.offset_bytes != 0) ARROW_RETURN_NOT_OK(block.CheckOffsets(first, count));
  for (uint64_t i = first; i < first + count; ++i) {
    int64_t index = 0;
    if (valid.empty() || valid[i] != 0) {
      ARROW_ASSIGN_OR_RAISE(index, IndexOf(block, i));
    }
    ARROW_RETURN_NOT_OK(PushIndices(index, 1));
  }
  return Status::OK();
}

Status DictionarySlots::AppendIndexed(const ValueBlock& indices, PageDictionary* dictionary,
                                      uint64_t first, uint64_t count, Validity valid) {
  const uint64_t size = dictionary->values.count;
  dictionary->unified.resize(size, -1);
  Status failed;
  ARROW_RETURN_NOT_OK(
      VisitIndices(indices, size, first, count, valid, [&](uint64_t /*i*/, uint64_t at) {
        if (!failed.ok()) return;
        if (at == size) {
          failed = PushIndices(0, 1);
          return;
        }
        int64_t& index = dictionary->unified[at];
        if (index < 0) {
          const auto found = IndexOf(dictionary->values, at);
          failed = found.status();
          if (!found.ok()) return;
          index = *found;
        }
        failed = PushIndices(index, 1);
      }));
  return failed;
}

Status DictionarySlots::AppendRepeated(const ValueBlock& block, uint64_t count) {
  if (block.offset_bytes != 0) ARROW_RETURN_NOT_OK(block.CheckOffsets(0, 1));
  ARROW_ASSIGN_OR_RAISE(const int64_t index, IndexOf(block, 0));
  return PushIndices(index, count);
}

Status DictionarySlots::AppendEmpty(uint64_t count) {
  return PushIndices(0, count);
}

Status DictionarySlots::AppendShared(std::shared_ptr<arrow::Buffer> value) {
  const uint64_t offsets[2] = {0, static_cast<uint64_t>(value->size())};
  const ValueBlock block{.count = 1,
                         .data = Bytes(value->data(), offsets[1]),
                         .offsets = Bytes(reinterpret_cast<const uint8_t*>(offsets), 16),
                         .offset_bytes = 8};
  return AppendBlock(block, 0, 1, {});
}

Result<std::shared_ptr<arrow::ArrayData>> DictionarySlots::Finish() {
  ARROW_ASSIGN_OR_RAISE(auto indices, indices_.Finish());
  auto data =
      arrow::ArrayData::Make(type_, static_cast<int64_t>(slots_), {nullptr, std::move(indices)}, 0);
  ARROW_ASSIGN_OR_RAISE(data->dictionary, values_->Finish());
  return data;
}

}  // namespace sarissa::lance
