// multipart/form-data, incremental and pure: bytes in, events out, no copy of the content.
//
// Strict: the body starts with its boundary (no preamble) and ends with the closing one (at most a
// line end behind it). A part needs a Content-Disposition of form-data. The boundary may fall
// across any two pieces of input. Errors are kInvalid and stop the parser for good. One thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace sarissa::server {

// The boundary parameter of a multipart/form-data content type; kInvalid when it is missing or not
// 1-70 legal characters.
Result<std::string> MultipartBoundary(std::string_view content_type);

class MultipartSink {
 public:
  virtual ~MultipartSink() = default;
  // `name` is unset when the part has none. An error from any of these stops the parser and is
  // returned as it is.
  virtual Status OnPart(const std::optional<std::string>& name) = 0;
  virtual Status OnData(std::span<const uint8_t> data) = 0;
  virtual Status OnPartEnd() = 0;
};

class MultipartParser {
 public:
  // Header lines of one part, all together.
  static constexpr size_t kMaxPartHeader = 8 << 10;

  // The sink outlives the parser.
  MultipartParser(std::string_view boundary, MultipartSink& sink);

  Status Consume(std::span<const uint8_t> data);
  // The body ended: kInvalid unless the closing boundary was seen.
  Status Finish() const;

 private:
  enum class State {
    kOpening,        // the first boundary
    kAfterBoundary,  // "--" or the line end behind a boundary
    kHeader,         // header lines of a part
    kData,           // content, up to the next delimiter
    kEpilogue,       // behind the closing boundary
  };

  // Each consumes a prefix of `text` and may change the state.
  Status Opening(std::string_view& text);
  Status AfterBoundary(std::string_view& text);
  Status Header(std::string_view& text);
  Status Data(std::string_view& text);
  Status Epilogue(std::string_view& text);

  Status Deliver(std::string_view content);
  Status BeginPart();

  const std::string delimiter_;  // CR LF "--" boundary
  MultipartSink& sink_;
  State state_ = State::kOpening;
  // What has been matched of the delimiter (kOpening, kData) at the end of the input so far.
  size_t matched_ = 0;
  std::string pending_;  // kAfterBoundary, kHeader, kEpilogue: input that is not decided yet
  uint64_t position_ = 0;
  uint64_t parts_ = 0;
};

}  // namespace sarissa::server
