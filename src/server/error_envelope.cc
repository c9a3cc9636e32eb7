#include "server/error_envelope.h"

#include <string>

#include "rollout/json_escape.h"

namespace sarissa::server {
namespace {

struct Mapping {
  int status;
  std::string_view code;
};

Mapping MappingOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid:
      return {400, "INVALID_REQUEST"};
    case ErrorKind::kNotFound:
      return {404, "NOT_FOUND"};
    case ErrorKind::kAlreadyExists:
      return {409, "ALREADY_EXISTS"};
    case ErrorKind::kOverloaded:
      return {503, "OVERLOADED"};
    case ErrorKind::kFenced:
      return {503, "FENCED"};
    case ErrorKind::kFailedWriter:
      return {503, "WRITER_FAILED"};
    case ErrorKind::kOutcomeUnknown:
      return {500, "OUTCOME_UNKNOWN"};
    case ErrorKind::kDeadline:
      return {503, "TIMEOUT"};
    case ErrorKind::kNoSpace:
      return {507, "NO_SPACE"};
    case ErrorKind::kCancelled:
      return {503, "DRAINING"};
    case ErrorKind::kConflict:
    case ErrorKind::kUnavailable:
    case ErrorKind::kCorrupt:
    case ErrorKind::kUnsupported:
    case ErrorKind::kIo:
    case ErrorKind::kInternal:
      return {500, "INTERNAL"};
  }
  return {500, "INTERNAL"};
}

}  // namespace

Response ErrorResponse(int status, std::string_view code, std::string_view message) {
  std::string body = R"({"error":{"code":)";
  rollout::AppendJsonString(code, body);
  body += R"(,"message":)";
  rollout::AppendJsonString(message, body);
  body += "}}";
  return JsonResponse(status, std::move(body));
}

Response ErrorResponse(const Status& status) {
  const ErrorKind kind = KindOf(status);
  const Mapping mapping = MappingOf(kind);
  Response response = ErrorResponse(mapping.status, mapping.code, status.message());
  // Retrying heals a full budget; it does not heal a fenced or failed writer.
  if (kind == ErrorKind::kOverloaded) response.headers.emplace_back("retry-after", "1");
  return response;
}

Response DurableNotFlushedResponse(const Status& status) {
  return ErrorResponse(
      MappingOf(KindOf(status)).status, "DURABLE_NOT_FLUSHED",
      "the rows are durable and visible on this server, but the flush failed: " + status.message());
}

}  // namespace sarissa::server
