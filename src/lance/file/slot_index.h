// Reads the indices of a dictionary-coded block, whatever their width.
#pragma once

#include <cstdint>

#include "lance/file/encoding/decoder.h"
#include "lance/file/encoding/load.h"

namespace sarissa::lance {

// Calls visit(i, index) for values [first, first + count) of `indices`, i from 0. A null's index is
// not looked at: visit gets `dictionary_size` instead. kCorrupt for an index past the dictionary.
template <typename T, typename Visit>
Status VisitIndicesOf(const ValueBlock& indices, uint64_t dictionary_size, uint64_t first,
                      uint64_t count, std::span<const uint8_t> valid, Visit&& visit) {
  const uint8_t* at = indices.data.data() + first * sizeof(T);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t index = Load<T>(at + i * sizeof(T));
    if (!valid.empty() && valid[first + i] == 0) {
      visit(i, dictionary_size);
      continue;
    }
    if (index >= dictionary_size) {
      return Error(ErrorKind::kCorrupt, "index {} into a dictionary of {}", index, dictionary_size);
    }
    visit(i, index);
  }
  return Status::OK();
}

template <typename Visit>
Status VisitIndices(const ValueBlock& indices, uint64_t dictionary_size, uint64_t first,
                    uint64_t count, std::span<const uint8_t> valid, Visit&& visit) {
  if (indices.items_per_value != 1 || indices.offset_bytes != 0) {
    return Error(ErrorKind::kCorrupt, "dictionary indices are not plain integers");
  }
  switch (indices.bits_per_item) {
    case 8:
      return VisitIndicesOf<uint8_t>(indices, dictionary_size, first, count, valid, visit);
    case 16:
      return VisitIndicesOf<uint16_t>(indices, dictionary_size, first, count, valid, visit);
    case 32:
      return VisitIndicesOf<uint32_t>(indices, dictionary_size, first, count, valid, visit);
    case 64:
      return VisitIndicesOf<uint64_t>(indices, dictionary_size, first, count, valid, visit);
    default:
      return Error(ErrorKind::kCorrupt, "dictionary indices of {} bits", indices.bits_per_item);
  }
}

}  // namespace sarissa::lance
