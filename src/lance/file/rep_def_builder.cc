#include "lance/file/rep_def_builder.h"

#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include <utility>

namespace sarissa::lance {
namespace {

Status NullError(const PathLayer& layer) {
  return Error(ErrorKind::kInvalid, "column '{}' must not be null, but a value is", layer.name);
}

void AppendRange(std::vector<SlotRange>* ranges, int64_t start, int64_t length) {
  if (!ranges->empty() && ranges->back().start + ranges->back().length == start) {
    ranges->back().length += length;
  } else {
    ranges->push_back({start, length});
  }
}

bool AllSet(const uint8_t* validity, int64_t offset, const std::vector<SlotRange>& slots) {
  for (const SlotRange& range : slots) {
    if (arrow::internal::CountSetBits(validity, offset + range.start, range.length) != range.length)
      return false;
  }
  return true;
}

}  // namespace

Result<const LevelBlock*> RepDefBuilder::Build(std::span<const arrow::ArrayData* const> nodes,
                                               int64_t first, int64_t count) {
  block_.rep.assign(path_.has_rep() ? static_cast<size_t>(count) : 0, path_.max_rep);
  block_.def.assign(path_.has_def() ? static_cast<size_t>(count) : 0, 0);
  block_.num_levels = count;
  block_.slots.assign(1, {first, count});
  block_.num_slots = count;
  block_.num_null_slots = 0;
  for (size_t i = 0; i < path_.layers.size(); ++i) {
    const PathLayer& layer = path_.layers[i];
    const arrow::ArrayData& data = *nodes[i];
    if (!layer.is_list) {
      ARROW_RETURN_NOT_OK(ApplyItem(layer, data));
      // A struct's children are numbered by its physical slots.
      if (i + 1 < path_.layers.size()) {
        for (SlotRange& range : block_.slots) range.start += data.offset;
      }
    } else if (data.type->id() == arrow::Type::LARGE_LIST) {
      ARROW_RETURN_NOT_OK(ApplyList<int64_t>(layer, data));
    } else {
      ARROW_RETURN_NOT_OK(ApplyList<int32_t>(layer, data));
    }
  }
  return &block_;
}

Status RepDefBuilder::CheckNoNulls(const PathLayer& layer, const uint8_t* validity,
                                   int64_t offset) const {
  size_t entry = 0;
  for (const SlotRange& range : block_.slots) {
    for (int64_t i = 0; i < range.length; ++i, ++entry) {
      if (!block_.def.empty()) {
        while (block_.def[entry] > layer.max_slot_def) ++entry;
        if (block_.def[entry] != 0) continue;
      }
      if (!arrow::bit_util::GetBit(validity, offset + range.start + i)) return NullError(layer);
    }
  }
  return Status::OK();
}

Status RepDefBuilder::ApplyItem(const PathLayer& layer, const arrow::ArrayData& data) {
  if (data.type->id() == arrow::Type::NA) {
    for (uint16_t& def : block_.def) {
      if (def != 0) continue;
      def = layer.null_level;
      ++block_.num_null_slots;
    }
    return Status::OK();
  }
  const uint8_t* validity = data.buffers[0] == nullptr ? nullptr : data.buffers[0]->data();
  if (validity == nullptr || AllSet(validity, data.offset, block_.slots)) return Status::OK();
  // A null of a field that must not be null is fine where something outside of it is null.
  if (!layer.nullable) return CheckNoNulls(layer, validity, data.offset);
  size_t entry = 0;
  for (const SlotRange& range : block_.slots) {
    const int64_t start = data.offset + range.start;
    for (int64_t i = 0; i < range.length; ++i, ++entry) {
      while (block_.def[entry] > layer.max_slot_def) ++entry;
      if (arrow::bit_util::GetBit(validity, start + i) || block_.def[entry] != 0) continue;
      block_.def[entry] = layer.null_level;
      ++block_.num_null_slots;
    }
  }
  return Status::OK();
}

template <typename Offset>
Status RepDefBuilder::ApplyList(const PathLayer& layer, const arrow::ArrayData& data) {
  const uint8_t* validity = data.buffers[0] == nullptr ? nullptr : data.buffers[0]->data();
  const auto* offsets = data.GetValues<Offset>(1);
  const auto continues = static_cast<uint16_t>(layer.repetition - 1);
  next_.rep.clear();
  next_.def.clear();
  next_.slots.clear();
  next_.num_slots = 0;
  size_t entry = 0;
  auto copy_entry = [&](uint16_t def) {
    next_.rep.push_back(block_.rep[entry]);
    next_.def.push_back(def);
  };
  for (const SlotRange& range : block_.slots) {
    for (int64_t slot = range.start; slot < range.start + range.length; ++slot, ++entry) {
      for (; block_.def[entry] > layer.max_slot_def; ++entry) copy_entry(block_.def[entry]);
      if (block_.def[entry] != 0) {
        copy_entry(block_.def[entry]);
        continue;
      }
      if (validity != nullptr && !arrow::bit_util::GetBit(validity, data.offset + slot)) {
        if (!layer.nullable) return NullError(layer);
        copy_entry(layer.null_level);
        continue;
      }
      const int64_t start = offsets[slot];
      const int64_t length = offsets[slot + 1] - start;
      copy_entry(length == 0 ? layer.empty_level : 0);
      if (length == 0) continue;
      next_.rep.resize(next_.rep.size() + static_cast<size_t>(length) - 1, continues);
      next_.def.resize(next_.rep.size(), 0);
      AppendRange(&next_.slots, start, length);
      next_.num_slots += length;
    }
  }
  for (; entry < block_.def.size(); ++entry) copy_entry(block_.def[entry]);
  next_.num_levels = static_cast<int64_t>(next_.rep.size());
  // Nulls so far are above this list: they have no slot below it.
  next_.num_null_slots = 0;
  std::swap(block_, next_);
  return Status::OK();
}

const std::vector<uint8_t>& RepDefBuilder::SlotValidity() {
  if (block_.def.empty()) {
    slot_validity_.assign(static_cast<size_t>(block_.num_slots), 1);
    return slot_validity_;
  }
  slot_validity_.resize(static_cast<size_t>(block_.num_slots));
  size_t slot = 0;
  for (uint16_t def : block_.def) {
    if (def <= path_.max_visible_def) slot_validity_[slot++] = def == 0;
  }
  return slot_validity_;
}

}  // namespace sarissa::lance
