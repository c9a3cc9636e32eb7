#include "lance/file/fixed_slots.h"

#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>
#include <arrow/util/checked_cast.h>

#include <algorithm>
#include <cstring>

#include "lance/file/slot_index.h"

namespace sarissa::lance {
namespace {

// A hint of the caller's may be wrong; it is not trusted beyond this.
constexpr uint64_t kMaxHintBytes = 64 << 20;

int64_t BytesForBits(uint64_t bits) {
  return static_cast<int64_t>((bits + 7) / 8);
}

}  // namespace

Status FixedSlots::CheckShape(const ValueBlock& block) const {
  if (block.offset_bytes != 0) {
    return Error(ErrorKind::kCorrupt, "values of variable width in a column of {}",
                 type_->ToString());
  }
  // No bits stand for items that are all null.
  const bool no_items = block.bits_per_item == 0 && type_->id() == arrow::Type::FIXED_SIZE_LIST;
  if ((block.bits_per_item != shape_.bits_per_item && !no_items) ||
      block.items_per_value != shape_.items_per_value) {
    return Error(ErrorKind::kCorrupt, "values of {} x {} bits in a column of {}",
                 block.items_per_value, block.bits_per_item, type_->ToString());
  }
  return Status::OK();
}

Status FixedSlots::Grow(uint64_t count, bool expands) {
  ARROW_ASSIGN_OR_RAISE(const uint64_t bytes, PackedBytes(slots_ + count, shape_.items_per_value,
                                                          shape_.bits_per_item, "values"));
  if (expands) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t more, PackedBytes(count, shape_.items_per_value,
                                                           shape_.bits_per_item, "values"));
    expanded_bytes_ += more;
    if (expanded_bytes_ > kMaxExpandedBytes) {
      return Error(ErrorKind::kInvalid, "{} rows of {} are too many for one read", slots_ + count,
                   type_->ToString());
    }
  }
  if (bytes_.capacity() == 0) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t hint,
                          PackedBytes(std::max(expected_slots_, slots_ + count),
                                      shape_.items_per_value, shape_.bits_per_item, "values"));
    ARROW_RETURN_NOT_OK(
        bytes_.Reserve(static_cast<int64_t>(std::max(bytes, std::min(hint, kMaxHintBytes)))));
  }
  const int64_t old = bytes_.length();
  if (static_cast<int64_t>(bytes) > old) {
    ARROW_RETURN_NOT_OK(bytes_.Reserve(static_cast<int64_t>(bytes) - old));
    bytes_.UnsafeAdvance(static_cast<int64_t>(bytes) - old);
    // Bits behind the last one are written later by whole-bit copies; they must not be
    // uninitialised.
    if (shape_.bits_per_item == 1) {
      std::memset(bytes_.mutable_data() + old, 0, static_cast<size_t>(bytes_.length() - old));
    }
  }
  return Status::OK();
}

Status FixedSlots::AppendItemValidity(Bytes bits, uint64_t first_item, uint64_t items) {
  if (bits.empty() && !has_item_validity_) return Status::OK();
  const uint64_t old_items = slots_ * shape_.items_per_value;
  const int64_t bytes = BytesForBits(old_items + items);
  const int64_t grown = item_validity_.length();
  if (bytes > grown) {
    ARROW_RETURN_NOT_OK(item_validity_.Reserve(bytes - grown));
    std::memset(item_validity_.mutable_data() + grown, 0, static_cast<size_t>(bytes - grown));
    item_validity_.UnsafeAdvance(bytes - grown);
  }
  uint8_t* to = item_validity_.mutable_data();
  if (!has_item_validity_) {
    arrow::bit_util::SetBitsTo(to, 0, static_cast<int64_t>(old_items), true);
    has_item_validity_ = true;
  }
  if (bits.empty()) {
    arrow::bit_util::SetBitsTo(to, static_cast<int64_t>(old_items), static_cast<int64_t>(items),
                               true);
  } else if (items > 0) {
    arrow::internal::CopyBitmap(bits.data(), static_cast<int64_t>(first_item),
                                static_cast<int64_t>(items), to, static_cast<int64_t>(old_items));
  }
  return Status::OK();
}

Status FixedSlots::AppendBlock(const ValueBlock& block, uint64_t first, uint64_t count,
                               Validity /*valid*/) {
  ARROW_RETURN_NOT_OK(CheckShape(block));
  if (count == 0) return Status::OK();
  ARROW_RETURN_NOT_OK(Grow(count, /*expands=*/block.bits_per_item == 0));
  const uint64_t items = shape_.items_per_value;
  ARROW_RETURN_NOT_OK(AppendItemValidity(block.item_validity, first * items, count * items));
  uint8_t* to = bytes_.mutable_data();
  const uint64_t bits = shape_.value_bits();
  if (block.bits_per_item == 0) {
    if (shape_.bits_per_item != 1) std::memset(to + slots_ * bits / 8, 0, count * bits / 8);
  } else if (shape_.bits_per_item == 1) {
    arrow::internal::CopyBitmap(block.data.data(), static_cast<int64_t>(first * bits),
                                static_cast<int64_t>(count * bits), to,
                                static_cast<int64_t>(slots_ * bits));
  } else {
    std::memcpy(to + slots_ * bits / 8, block.data.data() + first * bits / 8, count * bits / 8);
  }
  slots_ += count;
  return Status::OK();
}

Status FixedSlots::AppendIndexed(const ValueBlock& indices, PageDictionary* dictionary,
                                 uint64_t first, uint64_t count, Validity valid) {
  const ValueBlock& values = dictionary->values;
  ARROW_RETURN_NOT_OK(CheckShape(values));
  if (shape_.bits_per_item == 1 || values.bits_per_item == 0 || !values.item_validity.empty()) {
    return Error(ErrorKind::kUnsupported, "a dictionary of {} is not read here", type_->ToString());
  }
  if (count == 0) return Status::OK();
  ARROW_RETURN_NOT_OK(Grow(count, /*expands=*/shape_.value_bits() > 64));
  ARROW_RETURN_NOT_OK(AppendItemValidity({}, 0, count * shape_.items_per_value));
  const uint64_t width = shape_.value_bits() / 8;
  uint8_t* to = bytes_.mutable_data() + slots_ * width;
  const uint8_t* from = values.data.data();
  const uint64_t size = values.count;
  const auto copy = [&]<typename T>(T /*tag*/) {
    return VisitIndices(indices, size, first, count, valid, [&](uint64_t i, uint64_t index) {
      Store<T>(to + i * sizeof(T), index < size ? Load<T>(from + index * sizeof(T)) : T{});
    });
  };
  Status status;
  if (width == 4) {
    status = copy(uint32_t{});
  } else if (width == 8) {
    status = copy(uint64_t{});
  } else {
    status = VisitIndices(indices, size, first, count, valid, [&](uint64_t i, uint64_t index) {
      if (index < size) {
        std::memcpy(to + i * width, from + index * width, width);
      } else {
        std::memset(to + i * width, 0, width);
      }
    });
  }
  ARROW_RETURN_NOT_OK(status);
  slots_ += count;
  return Status::OK();
}

Status FixedSlots::AppendRepeated(const ValueBlock& block, uint64_t count) {
  ARROW_RETURN_NOT_OK(CheckShape(block));
  if (count == 0) return Status::OK();
  ARROW_RETURN_NOT_OK(Grow(count, /*expands=*/true));
  const uint64_t bits = shape_.value_bits();
  const uint64_t items = shape_.items_per_value;
  const uint64_t width = bits / 8;
  if (shape_.bits_per_item == 1 || !block.item_validity.empty() || block.bits_per_item == 0) {
    for (uint64_t i = 0; i < count; ++i) {
      // Grow made room for all; each copy of a value goes the way of a block of one.
      ARROW_RETURN_NOT_OK(AppendBlock(block, 0, 1, {}));
    }
    return Status::OK();
  }
  ARROW_RETURN_NOT_OK(AppendItemValidity({}, 0, count * items));
  uint8_t* to = bytes_.mutable_data() + slots_ * width;
  for (uint64_t i = 0; i < count; ++i) std::memcpy(to + i * width, block.data.data(), width);
  slots_ += count;
  return Status::OK();
}

Status FixedSlots::AppendEmpty(uint64_t count) {
  if (count == 0) return Status::OK();
  ARROW_RETURN_NOT_OK(Grow(count, /*expands=*/true));
  ARROW_RETURN_NOT_OK(AppendItemValidity({}, 0, count * shape_.items_per_value));
  const uint64_t bits = shape_.value_bits();
  if (shape_.bits_per_item != 1) {
    std::memset(bytes_.mutable_data() + slots_ * bits / 8, 0, count * bits / 8);
  }
  slots_ += count;
  return Status::OK();
}

Status FixedSlots::AppendShared(std::shared_ptr<arrow::Buffer> /*value*/) {
  return Error(ErrorKind::kCorrupt, "a value of variable width in a column of {}",
               type_->ToString());
}

Result<std::shared_ptr<arrow::ArrayData>> FixedSlots::Finish() {
  ARROW_ASSIGN_OR_RAISE(auto bytes, bytes_.Finish(/*shrink_to_fit=*/false));
  const auto length = static_cast<int64_t>(slots_);
  if (type_->id() != arrow::Type::FIXED_SIZE_LIST) {
    return arrow::ArrayData::Make(type_, length, {nullptr, std::move(bytes)}, 0);
  }
  const auto& list = arrow::internal::checked_cast<const arrow::FixedSizeListType&>(*type_);
  std::shared_ptr<arrow::Buffer> validity;
  if (has_item_validity_) {
    ARROW_ASSIGN_OR_RAISE(validity, item_validity_.Finish());
  }
  const int64_t items = length * list.list_size();
  auto child = arrow::ArrayData::Make(list.value_type(), items, {validity, std::move(bytes)},
                                      validity == nullptr ? 0 : arrow::kUnknownNullCount);
  return arrow::ArrayData::Make(type_, length, {nullptr}, {std::move(child)}, 0);
}

}  // namespace sarissa::lance
