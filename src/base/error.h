// Errors: arrow::Status with a kind that a caller can act on.
//
// Every fallible call in this project returns arrow::Status or arrow::Result. The kind travels in a
// StatusDetail, so it survives being passed up through any number of rooms; server/ maps it to
// HTTP. No exceptions cross rooms. All functions here are thread safe.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace sarissa {

using arrow::Result;
using arrow::Status;

enum class ErrorKind {
  kInvalid,         // the caller's input is wrong; the message names the place
  kNotFound,        // the named thing is not there
  kAlreadyExists,   // put-if-absent or create met an existing name
  kConflict,        // a commit lost its race; re-read and retry
  kFenced,          // a higher epoch owns the shard; this writer never acknowledges again
  kFailedWriter,    // the writer lost its log or could not flush; only a reopen heals
  kOverloaded,      // a budget or queue is full; nothing was written, retry later
  kOutcomeUnknown,  // a write may or may not have landed
  kUnavailable,     // the storage did not answer; nothing is known to be wrong with the data
  kCorrupt,         // bytes on disk are not what was written
  kUnsupported,     // a legal file that uses something we do not read; the message names it
  kDeadline,        // the wait ended before the work did
  kCancelled,       // the worker stopped, or the waiter gave up, before the work ended
  kNoSpace,         // the disk or quota is full
  kIo,              // any other failure of the operating system
  kInternal,        // a bug of ours
};

// Stable lower-case name of a kind, for logs and metrics.
std::string_view ErrorKindName(ErrorKind kind);

// Makes an error Status of `kind`.
Status MakeError(ErrorKind kind, std::string message);

template <typename... Args>
Status Error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Kind of a failed status. Statuses that Arrow made itself are mapped by their code (Invalid ->
// kInvalid, IOError -> kIo, KeyError -> kNotFound, NotImplemented -> kUnsupported, ...). Must not
// be called on OK.
ErrorKind KindOf(const Status& status);

inline bool Is(const Status& status, ErrorKind kind) {
  return !status.ok() && KindOf(status) == kind;
}

// The same error with `context` put before its message; the kind is kept.
Status Annotate(const Status& status, std::string_view context);

// The same message under another kind (a corrupt page inside a log entry is a corrupt log entry).
Status WithKind(const Status& status, ErrorKind kind);

// Prints what failed and aborts: a broken invariant, never a user's mistake. Always compiled in.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression,
                              const std::string& message);

}  // namespace sarissa

#define SARISSA_CHECK(condition, ...)                                                        \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      ::sarissa::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                        \
  } while (false)
