// Owns a file descriptor, and turns errno into errors that name what was tried.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace sarissa::env {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// The error for `code` (an errno value) when `action` was tried on `path`.
Status ErrnoError(int code, std::string_view action, std::string_view path);

// Calls until it is not interrupted by a signal.
template <typename Call>
auto RetryOnSignal(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace sarissa::env
