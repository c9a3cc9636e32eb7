#include "lance/file/variable_slots.h"

#include <limits>

#include "lance/file/slot_index.h"

namespace sarissa::lance {
namespace {

void AppendBytes(arrow::BufferBuilder* to, Bytes bytes) {
  if (!bytes.empty()) to->UnsafeAppend(bytes.data(), static_cast<int64_t>(bytes.size()));
}

}  // namespace

Status VariableSlots::CheckShape(const ValueBlock& block) const {
  if (block.offset_bytes != 0) return Status::OK();
  return Error(ErrorKind::kCorrupt, "values of {} x {} bits in a column of {}",
               block.items_per_value, block.bits_per_item, type_->ToString());
}

Status VariableSlots::Grow(uint64_t count, uint64_t bytes) {
  const uint64_t limit = large_ ? uint64_t{1} << 62 : std::numeric_limits<int32_t>::max();
  if (bytes > limit || end_ > limit - bytes || count > limit || slots_ > limit - count) {
    return Error(ErrorKind::kInvalid, "more than {} bytes of {} in one read", limit,
                 type_->ToString());
  }
  const int64_t width = large_ ? 8 : 4;
  const bool first = offsets_.length() == 0;
  ARROW_RETURN_NOT_OK(offsets_.Reserve((static_cast<int64_t>(count) + (first ? 1 : 0)) * width));
  if (first) PushOffset();
  if (bytes == 0) return Status::OK();
  if (shared_ != nullptr) {
    ARROW_RETURN_NOT_OK(bytes_.Append(shared_->data(), shared_->size()));
    shared_ = nullptr;
  }
  return bytes_.Reserve(static_cast<int64_t>(bytes));
}

void VariableSlots::PushOffset() {
  if (large_) {
    offsets_.UnsafeAppend(&end_, 8);
  } else {
    const auto narrow = static_cast<uint32_t>(end_);
    offsets_.UnsafeAppend(&narrow, 4);
  }
}

template <typename To, typename From>
void VariableSlots::CopyOffsets(const ValueBlock& block, uint64_t first, uint64_t count) {
  const uint8_t* from = block.offsets.data() + first * sizeof(From);
  uint8_t* to = offsets_.mutable_data() + offsets_.length();
  const uint64_t base = end_ - Load<From>(from);
  for (uint64_t i = 1; i <= count; ++i) {
    Store<To>(to + (i - 1) * sizeof(To),
              static_cast<To>(base + Load<From>(from + i * sizeof(From))));
  }
  offsets_.UnsafeAdvance(static_cast<int64_t>(count * sizeof(To)));
}

Status VariableSlots::AppendBlock(const ValueBlock& block, uint64_t first, uint64_t count,
                                  Validity /*valid*/) {
  ARROW_RETURN_NOT_OK(CheckShape(block));
  if (count == 0) return Status::OK();
  ARROW_RETURN_NOT_OK(block.CheckOffsets(first, count));
  const uint64_t begin = block.Offset(first);
  const uint64_t bytes = block.Offset(first + count) - begin;
  ARROW_RETURN_NOT_OK(Grow(count, bytes));
  if (large_) {
    block.offset_bytes == 4 ? CopyOffsets<uint64_t, uint32_t>(block, first, count)
                            : CopyOffsets<uint64_t, uint64_t>(block, first, count);
  } else {
    block.offset_bytes == 4 ? CopyOffsets<uint32_t, uint32_t>(block, first, count)
                            : CopyOffsets<uint32_t, uint64_t>(block, first, count);
  }
  AppendBytes(&bytes_, block.data.subspan(begin, bytes));
  end_ += bytes;
  slots_ += count;
  return Status::OK();
}

Status VariableSlots::AppendIndexed(const ValueBlock& indices, PageDictionary* dictionary,
                                    uint64_t first, uint64_t count, Validity valid) {
  const ValueBlock& values = dictionary->values;
  ARROW_RETURN_NOT_OK(CheckShape(values));
  if (count == 0) return Status::OK();
  uint64_t bytes = 0;
  ARROW_RETURN_NOT_OK(
      VisitIndices(indices, values.count, first, count, valid, [&](uint64_t /*i*/, uint64_t index) {
        if (index < values.count) bytes += values.Variable(index).size();
      }));
  if (end_ + bytes > kMaxExpandedBytes * 2) {
    return Error(ErrorKind::kInvalid, "{} rows of {} are too many for one read", slots_ + count,
                 type_->ToString());
  }
  ARROW_RETURN_NOT_OK(Grow(count, bytes));
  ARROW_RETURN_NOT_OK(
      VisitIndices(indices, values.count, first, count, valid, [&](uint64_t /*i*/, uint64_t index) {
        if (index < values.count) {
          const Bytes value = values.Variable(index);
          AppendBytes(&bytes_, value);
          end_ += value.size();
        }
        PushOffset();
      }));
  slots_ += count;
  return Status::OK();
}

Status VariableSlots::AppendRepeated(const ValueBlock& block, uint64_t count) {
  ARROW_RETURN_NOT_OK(CheckShape(block));
  ARROW_RETURN_NOT_OK(block.CheckOffsets(0, 1));
  const Bytes value = block.Variable(0);
  uint64_t bytes = 0;
  if (count > kMaxExpandedBytes / 8 || __builtin_mul_overflow(count, value.size(), &bytes) ||
      bytes > kMaxExpandedBytes) {
    return Error(ErrorKind::kInvalid, "{} times a value of {} bytes is too much for one read",
                 count, value.size());
  }
  ARROW_RETURN_NOT_OK(Grow(count, bytes));
  for (uint64_t i = 0; i < count; ++i) {
    AppendBytes(&bytes_, value);
    end_ += value.size();
    PushOffset();
  }
  slots_ += count;
  return Status::OK();
}

Status VariableSlots::AppendEmpty(uint64_t count) {
  if (slots_ + count > kMaxExpandedBytes / 4) {
    return Error(ErrorKind::kInvalid, "{} rows are too many for one read", slots_ + count);
  }
  ARROW_RETURN_NOT_OK(Grow(count, 0));
  for (uint64_t i = 0; i < count; ++i) PushOffset();
  slots_ += count;
  return Status::OK();
}

Status VariableSlots::AppendValue(Bytes value) {
  ARROW_RETURN_NOT_OK(Grow(1, value.size()));
  AppendBytes(&bytes_, value);
  end_ += value.size();
  PushOffset();
  ++slots_;
  return Status::OK();
}

Status VariableSlots::AppendShared(std::shared_ptr<arrow::Buffer> value) {
  if (end_ != 0) {
    return AppendValue(Bytes(value->data(), static_cast<size_t>(value->size())));
  }
  // Counts the bytes against the limit of the type, without room for them.
  const auto size = static_cast<uint64_t>(value->size());
  if (!large_ && size > std::numeric_limits<int32_t>::max()) {
    return Error(ErrorKind::kInvalid, "a value of {} bytes in a column of {}", size,
                 type_->ToString());
  }
  ARROW_RETURN_NOT_OK(Grow(1, 0));
  shared_ = std::move(value);
  end_ = size;
  PushOffset();
  ++slots_;
  return Status::OK();
}

Result<std::shared_ptr<arrow::ArrayData>> VariableSlots::Finish() {
  ARROW_RETURN_NOT_OK(Grow(0, 0));
  ARROW_ASSIGN_OR_RAISE(auto offsets, offsets_.Finish(/*shrink_to_fit=*/false));
  std::shared_ptr<arrow::Buffer> bytes = std::move(shared_);
  if (bytes == nullptr) {
    ARROW_ASSIGN_OR_RAISE(bytes, bytes_.Finish());
  }
  return arrow::ArrayData::Make(type_, static_cast<int64_t>(slots_),
                                {nullptr, std::move(offsets), std::move(bytes)}, 0);
}

}  // namespace sarissa::lance
