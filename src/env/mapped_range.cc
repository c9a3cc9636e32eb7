#include "env/mapped_range.h"

#include <algorithm>

namespace sarissa::env {
namespace {

const MappedBuffer* FindMapping(const arrow::Buffer& buffer) {
  for (const arrow::Buffer* at = &buffer; at != nullptr; at = at->parent().get()) {
    if (const auto* mapped = dynamic_cast<const MappedBuffer*>(at)) return mapped;
  }
  return nullptr;
}

}  // namespace

void ReleaseMappedPages(const arrow::Buffer& buffer, int64_t offset, int64_t length) {
  const MappedBuffer* mapped = FindMapping(buffer);
  if (mapped == nullptr) return;
  const int64_t begin = std::clamp<int64_t>(offset, 0, buffer.size());
  const int64_t end = std::clamp<int64_t>(length, 0, buffer.size() - begin) + begin;
  if (begin == end) return;
  mapped->Release(buffer.data() - mapped->data() + begin, end - begin);
}

bool IsMapped(const arrow::Buffer& buffer) {
  return FindMapping(buffer) != nullptr;
}

}  // namespace sarissa::env
