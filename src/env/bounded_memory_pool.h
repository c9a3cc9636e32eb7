// An Arrow memory pool for reading what others wrote: a length inside the input never makes Arrow
// allocate more than the reader allows.
//
// It counts all it ever gave out, not what is out now, so that neither one huge buffer nor many one
// after another pass the limit. Arrow's CappedMemoryPool is no replacement: it counts what the
// whole process has allocated. One thread at a time; outlives its buffers. Allocations past the
// limit fail as out of memory, and refusal() says why.
#pragma once

#include <arrow/memory_pool.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"

namespace sarissa::env {

class BoundedMemoryPool final : public arrow::MemoryPool {
 public:
  // Asked for leave before `bytes` more are allocated; its error refuses them.
  using Charge = std::function<Status(int64_t bytes)>;

  explicit BoundedMemoryPool(int64_t limit, Charge charge = nullptr)
      : limit_(limit), charge_(std::move(charge)) {}

  using arrow::MemoryPool::Allocate;
  using arrow::MemoryPool::Free;
  using arrow::MemoryPool::Reallocate;
  Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override;
  Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t** ptr) override;
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override;

  int64_t bytes_allocated() const override { return held_; }
  int64_t max_memory() const override { return peak_; }
  int64_t total_bytes_allocated() const override { return total_; }
  int64_t num_allocations() const override { return allocations_; }
  std::string backend_name() const override { return base_->backend_name(); }

  // Why an allocation was refused: kInvalid for the limit, else the error of `charge`. OK if none
  // was.
  const Status& refusal() const { return refusal_; }

 private:
  Status Admit(int64_t bytes);

  arrow::MemoryPool* const base_ = arrow::default_memory_pool();
  const int64_t limit_;
  const Charge charge_;
  Status refusal_;
  int64_t held_ = 0;
  int64_t peak_ = 0;
  int64_t total_ = 0;
  int64_t allocations_ = 0;
};

}  // namespace sarissa::env
