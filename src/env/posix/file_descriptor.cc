#include "env/posix/file_descriptor.h"

#include <unistd.h>

#include <system_error>

namespace sarissa::env {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  // An error of close says nothing that a sync has not said before.
  if (fd_ >= 0) ::close(fd_);
}

Status ErrnoError(int code, std::string_view action, std::string_view path) {
  ErrorKind kind = ErrorKind::kIo;
  switch (code) {
    case ENOENT:
    case ENOTDIR:
      kind = ErrorKind::kNotFound;
      break;
    case EEXIST:
      kind = ErrorKind::kAlreadyExists;
      break;
    case ENOSPC:
    case EDQUOT:
      kind = ErrorKind::kNoSpace;
      break;
    case EMFILE:
    case ENFILE:
      kind = ErrorKind::kUnavailable;
      break;
    default:
      break;
  }
  return Error(kind, "{} '{}': {}", action, path, std::generic_category().message(code));
}

}  // namespace sarissa::env
