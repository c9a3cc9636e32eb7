// What record batches hold: their memory for the budget, and their mapped pages.
#pragma once

#include <arrow/record_batch.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace sarissa::server {

// Bytes of heap that the batches pin: each buffer once, by the size of the allocation it is a slice
// of; mapped ranges count nothing.
int64_t MemoryOf(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches);

// Gives the pages of all mapped buffers of `batch` back.
void ReleaseMappedPagesOf(const arrow::RecordBatch& batch);

}  // namespace sarissa::server
