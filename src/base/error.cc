#include "base/error.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace sarissa {
namespace {

constexpr char kDetailType[] = "sarissa::ErrorDetail";

class ErrorDetail final : public arrow::StatusDetail {
 public:
  explicit ErrorDetail(ErrorKind kind) : kind_(kind) {}
  const char* type_id() const override { return kDetailType; }
  std::string ToString() const override { return std::string(ErrorKindName(kind_)); }
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

arrow::StatusCode CodeFor(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return arrow::StatusCode::Invalid;
    case ErrorKind::kNotFound:
      return arrow::StatusCode::KeyError;
    case ErrorKind::kAlreadyExists:
      return arrow::StatusCode::AlreadyExists;
    case ErrorKind::kOverloaded:
      return arrow::StatusCode::CapacityError;
    case ErrorKind::kUnsupported:
      return arrow::StatusCode::NotImplemented;
    case ErrorKind::kCancelled:
    case ErrorKind::kDeadline:
      return arrow::StatusCode::Cancelled;
    case ErrorKind::kIo:
    case ErrorKind::kNoSpace:
    case ErrorKind::kUnavailable:
    case ErrorKind::kOutcomeUnknown:
    case ErrorKind::kCorrupt:
      return arrow::StatusCode::IOError;
    case ErrorKind::kConflict:
    case ErrorKind::kFenced:
    case ErrorKind::kFailedWriter:
    case ErrorKind::kInternal:
      return arrow::StatusCode::UnknownError;
  }
  return arrow::StatusCode::UnknownError;
}

}  // namespace

std::string_view ErrorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return "invalid";
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kAlreadyExists:
      return "already_exists";
    case ErrorKind::kConflict:
      return "conflict";
    case ErrorKind::kFenced:
      return "fenced";
    case ErrorKind::kFailedWriter:
      return "failed_writer";
    case ErrorKind::kOverloaded:
      return "overloaded";
    case ErrorKind::kOutcomeUnknown:
      return "outcome_unknown";
    case ErrorKind::kUnavailable:
      return "unavailable";
    case ErrorKind::kCorrupt:
      return "corrupt";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kDeadline:
      return "deadline";
    case ErrorKind::kCancelled:
      return "cancelled";
    case ErrorKind::kNoSpace:
      return "no_space";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "internal";
}

Status MakeError(ErrorKind kind, std::string message) {
  return Status(CodeFor(kind), std::move(message), std::make_shared<ErrorDetail>(kind));
}

ErrorKind KindOf(const Status& status) {
  SARISSA_CHECK(!status.ok(), "KindOf(OK)");
  if (status.detail() != nullptr && status.detail()->type_id() == kDetailType) {
    return static_cast<const ErrorDetail&>(*status.detail()).kind();
  }
  switch (status.code()) {
    case arrow::StatusCode::Invalid:
    case arrow::StatusCode::TypeError:
    case arrow::StatusCode::IndexError:
      return ErrorKind::kInvalid;
    case arrow::StatusCode::KeyError:
      return ErrorKind::kNotFound;
    case arrow::StatusCode::AlreadyExists:
      return ErrorKind::kAlreadyExists;
    case arrow::StatusCode::OutOfMemory:
    case arrow::StatusCode::CapacityError:
      return ErrorKind::kOverloaded;
    case arrow::StatusCode::NotImplemented:
      return ErrorKind::kUnsupported;
    case arrow::StatusCode::Cancelled:
      return ErrorKind::kCancelled;
    case arrow::StatusCode::IOError:
    case arrow::StatusCode::SerializationError:
      return ErrorKind::kIo;
    default:
      return ErrorKind::kInternal;
  }
}

Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  return MakeError(KindOf(status), fmt::format("{}: {}", context, status.message()));
}

Status WithKind(const Status& status, ErrorKind kind) {
  if (status.ok()) return status;
  return MakeError(kind, std::string(status.message()));
}

void CheckFailed(const char* file, int line, const char* expression, const std::string& message) {
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, expression, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace sarissa
