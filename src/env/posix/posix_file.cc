#include "env/posix/posix_file.h"

#include <arrow/buffer.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/sync_point.h"
#include "env/mapped_range.h"

namespace sarissa::env {
namespace {

uint64_t PageSize() {
  static const uint64_t size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// A mapping begins at a page; the buffer begins `delta` bytes into it.
class PosixMappedBuffer final : public MappedBuffer {
 public:
  PosixMappedBuffer(uint8_t* mapping, uint64_t delta, int64_t size)
      : MappedBuffer(mapping + delta, size),
        mapping_(mapping),
        mapping_size_(delta + static_cast<uint64_t>(size)) {}
  ~PosixMappedBuffer() override { ::munmap(mapping_, mapping_size_); }

  void Release(int64_t offset, int64_t length) const override {
    const uint64_t page = PageSize();
    const uint64_t delta = static_cast<uint64_t>(data() - mapping_);
    const uint64_t begin = (delta + static_cast<uint64_t>(offset) + page - 1) / page * page;
    uint64_t end = delta + static_cast<uint64_t>(offset + length);
    // The last page belongs to the buffer alone, so it may go too.
    if (end < mapping_size_) end = end / page * page;
    if (begin >= end) return;
    // Advice only: a failure costs memory, not data.
    ::madvise(mapping_ + begin, end - begin, MADV_DONTNEED);
  }

 private:
  uint8_t* const mapping_;
  const uint64_t mapping_size_;
};

}  // namespace

Status PosixReadableFile::CheckRange(uint64_t offset, uint64_t length) const {
  if (offset <= size_ && length <= size_ - offset) return Status::OK();
  return Error(ErrorKind::kInvalid, "read '{}': {} bytes at offset {} are not within its {} bytes",
               path_, length, offset, size_);
}

Result<std::shared_ptr<arrow::Buffer>> PosixReadableFile::ReadAt(uint64_t offset,
                                                                 uint64_t length) const {
  ARROW_RETURN_NOT_OK(CheckRange(offset, length));
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                        arrow::AllocateBuffer(static_cast<int64_t>(length)));
  uint64_t done = 0;
  while (done < length) {
    const ssize_t got = RetryOnSignal([&] {
      return ::pread(file_.get(), buffer->mutable_data() + done, length - done,
                     static_cast<off_t>(offset + done));
    });
    if (got < 0) return ErrnoError(errno, "read", path_);
    if (got == 0) {
      return Error(ErrorKind::kIo, "read '{}': {} bytes at offset {} were asked for, {} are there",
                   path_, length, offset, done);
    }
    done += static_cast<uint64_t>(got);
  }
  return buffer;
}

Result<std::shared_ptr<arrow::Buffer>> PosixReadableFile::Map(uint64_t offset,
                                                              uint64_t length) const {
  ARROW_RETURN_NOT_OK(CheckRange(offset, length));
  if (length == 0) return std::make_shared<arrow::Buffer>(nullptr, 0);
  const uint64_t delta = offset % PageSize();
  void* mapping = ::mmap(nullptr, delta + length, PROT_READ, MAP_SHARED, file_.get(),
                         static_cast<off_t>(offset - delta));
  if (mapping == MAP_FAILED) return ErrnoError(errno, "map", path_);
  return std::make_shared<PosixMappedBuffer>(static_cast<uint8_t*>(mapping), delta,
                                             static_cast<int64_t>(length));
}

PosixWritableFile::~PosixWritableFile() {
  if (!origin_.temporary_path.empty()) ::unlink(origin_.temporary_path.c_str());
}

Status PosixWritableFile::Append(std::span<const uint8_t> data) {
  while (!data.empty()) {
    const ssize_t wrote =
        RetryOnSignal([&] { return ::write(file_.get(), data.data(), data.size()); });
    if (wrote < 0) return ErrnoError(errno, "write to a new file in", origin_.directory);
    size_ += static_cast<uint64_t>(wrote);
    data = data.subspan(static_cast<size_t>(wrote));
  }
  return Status::OK();
}

Status PosixWritableFile::Sync() {
  SARISSA_SYNC_POINT("posix_file.sync");
  if (sync_failed_) {
    return Error(ErrorKind::kIo, "sync of a new file in '{}': an earlier sync failed",
                 origin_.directory);
  }
  if (!origin_.sync) return Status::OK();
  if (RetryOnSignal([&] { return ::fdatasync(file_.get()); }) != 0) {
    sync_failed_ = true;
    return ErrnoError(errno, "sync a new file in", origin_.directory);
  }
  return Status::OK();
}

Status PosixWritableFile::LinkAs(const std::string& path) {
  if (!origin_.temporary_path.empty()) {
    if (::link(origin_.temporary_path.c_str(), path.c_str()) != 0)
      return ErrnoError(errno, "link", path);
    ::unlink(origin_.temporary_path.c_str());
    origin_.temporary_path.clear();
    return Status::OK();
  }
  const std::string handle = fmt::format("/proc/self/fd/{}", file_.get());
  if (::linkat(AT_FDCWD, handle.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return ErrnoError(errno, "link", path);
  }
  return Status::OK();
}

Result<std::shared_ptr<ReadableFile>> PosixWritableFile::OpenForRead() {
  FileDescriptor copy(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return ErrnoError(errno, "open for reading a new file in", origin_.directory);
  return std::make_shared<PosixReadableFile>(std::move(copy), size_,
                                             origin_.directory + "/(new file)");
}

}  // namespace sarissa::env
