#include "env/bounded_memory_pool.h"

#include <algorithm>

namespace sarissa::env {

Status BoundedMemoryPool::Admit(int64_t bytes) {
  if (bytes > limit_ - total_) {
    refusal_ = Error(ErrorKind::kInvalid, "it needs {} bytes of memory after {}, the limit is {}",
                     bytes, total_, limit_);
  } else if (charge_ != nullptr) {
    refusal_ = charge_(bytes);
  }
  return refusal_.ok() ? refusal_ : Status::OutOfMemory(refusal_.message());
}

Status BoundedMemoryPool::Allocate(int64_t size, int64_t alignment, uint8_t** out) {
  ARROW_RETURN_NOT_OK(Admit(size));
  ARROW_RETURN_NOT_OK(base_->Allocate(size, alignment, out));
  held_ += size;
  total_ += size;
  peak_ = std::max(peak_, held_);
  ++allocations_;
  return Status::OK();
}

Status BoundedMemoryPool::Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
                                     uint8_t** ptr) {
  const int64_t growth = std::max<int64_t>(new_size - old_size, 0);
  if (growth > 0) ARROW_RETURN_NOT_OK(Admit(growth));
  ARROW_RETURN_NOT_OK(base_->Reallocate(old_size, new_size, alignment, ptr));
  held_ += new_size - old_size;
  total_ += growth;
  peak_ = std::max(peak_, held_);
  return Status::OK();
}

void BoundedMemoryPool::Free(uint8_t* buffer, int64_t size, int64_t alignment) {
  base_->Free(buffer, size, alignment);
  held_ -= size;
}

}  // namespace sarissa::env
