// A buffer that is a mapping of a file range, and the one thing one must be able to do with it:
// give its pages back.
//
// Values above 1 MiB live as file ranges from the upload to the page writer (design: LargeValue).
// They are ordinary Arrow buffers to all code; whoever streams through one releases what it has
// passed, so that resident memory stays flat.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <memory>
#include <span>

namespace sarissa::env {

// Values and buffers of at least this many bytes are kept as file ranges where they come from a
// file.
inline constexpr int64_t kMapThresholdBytes = 1 << 20;

class MappedBuffer : public arrow::Buffer {
 public:
  using arrow::Buffer::Buffer;
  // Drops the resident pages that lie wholly inside the range; the bytes stay readable (from the
  // file). `offset` and `length` are within this buffer. Thread safe.
  virtual void Release(int64_t offset, int64_t length) const = 0;
};

// If `buffer` is a mapping or a slice of one (parents are followed), gives the pages of [offset,
// offset+length) back; else does nothing.
void ReleaseMappedPages(const arrow::Buffer& buffer, int64_t offset, int64_t length);

// Bytes of `buffer` that occupy memory: 0 for mappings and their slices, the parent's whole size
// for slices of heap buffers. `seen` roots are the caller's business: see MemoryOf in
// memory_budget.h.
bool IsMapped(const arrow::Buffer& buffer);

}  // namespace sarissa::env
