#include "server/batch_memory.h"

#include <arrow/array/data.h>

#include <unordered_set>

#include "env/mapped_range.h"

namespace sarissa::server {
namespace {

template <typename Visit>
void ForEachBuffer(const arrow::ArrayData& data, const Visit& visit) {
  for (const std::shared_ptr<arrow::Buffer>& buffer : data.buffers) {
    if (buffer != nullptr) visit(*buffer);
  }
  for (const std::shared_ptr<arrow::ArrayData>& child : data.child_data) {
    if (child != nullptr) ForEachBuffer(*child, visit);
  }
  if (data.dictionary != nullptr) ForEachBuffer(*data.dictionary, visit);
}

template <typename Visit>
void ForEachBuffer(const arrow::RecordBatch& batch, const Visit& visit) {
  for (int i = 0; i < batch.num_columns(); ++i) ForEachBuffer(*batch.column_data(i), visit);
}

}  // namespace

int64_t MemoryOf(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  std::unordered_set<const arrow::Buffer*> seen;
  int64_t bytes = 0;
  for (const auto& batch : batches) {
    ForEachBuffer(*batch, [&](const arrow::Buffer& buffer) {
      if (env::IsMapped(buffer)) return;
      const arrow::Buffer* root = &buffer;
      while (root->parent() != nullptr) root = root->parent().get();
      if (seen.insert(root).second) bytes += root->capacity();
    });
  }
  return bytes;
}

void ReleaseMappedPagesOf(const arrow::RecordBatch& batch) {
  ForEachBuffer(batch, [](const arrow::Buffer& buffer) {
    env::ReleaseMappedPages(buffer, 0, buffer.size());
  });
}

}  // namespace sarissa::server
