#include "server/blob_stream.h"

#include <algorithm>
#include <string>

#include "env/mapped_range.h"

namespace sarissa::server {

Awaitable<Result<std::shared_ptr<arrow::Buffer>>> BlobStream::Next() {
  const int64_t length = std::min(kPieceBytes, payload_->size() - position_);
  if (length == 0) co_return nullptr;
  const int64_t offset = std::exchange(position_, position_ + length);
  if (!env::IsMapped(*payload_)) co_return arrow::SliceBuffer(payload_, offset, length);
  // Touching a mapped page may read the disk: not on an io thread.
  auto copy = [payload = payload_, offset, length]() -> Result<std::shared_ptr<arrow::Buffer>> {
    std::string piece(reinterpret_cast<const char*>(payload->data()) + offset,
                      static_cast<size_t>(length));
    env::ReleaseMappedPages(*payload, offset, length);
    return arrow::Buffer::FromString(std::move(piece));
  };
  co_return co_await RunOn(io_, *env_.storage, copy);
}

}  // namespace sarissa::server
