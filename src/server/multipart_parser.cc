#include "server/multipart_parser.h"

#include <arrow/result.h>

#include <algorithm>
#include <cctype>

namespace sarissa::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct Parameter {
  bool found = false;
  std::string value;
};

// Reads one `;name=value` or `;name="value"` off the front of `rest`; false at the end. `ok` is
// cleared on a syntax error.
bool NextParameter(std::string_view& rest, std::string_view& name, std::string& value, bool& ok) {
  rest = Trim(rest);
  if (rest.empty()) return false;
  if (rest.front() != ';') {
    ok = false;
    return false;
  }
  rest = Trim(rest.substr(1));
  if (rest.empty()) return false;
  const size_t equals = rest.find('=');
  if (equals == std::string_view::npos) {
    ok = false;
    return false;
  }
  name = Trim(rest.substr(0, equals));
  rest.remove_prefix(equals + 1);
  value.clear();
  if (!rest.starts_with('"')) {
    const size_t end = rest.find(';');
    value = Trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end, rest.size()));
    return true;
  }
  size_t i = 1;
  for (; i < rest.size() && rest[i] != '"'; ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size()) ++i;
    value.push_back(rest[i]);
  }
  if (i >= rest.size()) {
    ok = false;
    return false;
  }
  rest.remove_prefix(i + 1);
  return true;
}

// The first parameter `wanted` of a header value; kInvalid on a syntax error or a repeated one.
Result<Parameter> FindParameter(std::string_view header, std::string_view wanted) {
  const size_t start = header.find(';');
  Parameter found;
  if (start == std::string_view::npos) return found;
  std::string_view rest = header.substr(start);
  std::string_view name;
  std::string value;
  bool ok = true;
  while (NextParameter(rest, name, value, ok)) {
    if (!EqualsIgnoringCase(name, wanted)) continue;
    if (found.found)
      return Error(ErrorKind::kInvalid, "multipart: parameter '{}' is repeated", wanted);
    found = {true, value};
  }
  if (!ok) return Error(ErrorKind::kInvalid, "multipart: malformed header parameters");
  return found;
}

bool IsBoundaryCharacter(unsigned char c) {
  return std::isalnum(c) != 0 ||
         std::string_view("'()+_,-./:=? ").find(static_cast<char>(c)) != std::string_view::npos;
}

}  // namespace

Result<std::string> MultipartBoundary(std::string_view content_type) {
  ARROW_ASSIGN_OR_RAISE(Parameter boundary, FindParameter(content_type, "boundary"));
  if (!boundary.found)
    return Error(ErrorKind::kInvalid, "multipart: the content type has no boundary");
  const std::string& value = boundary.value;
  if (value.empty() || value.size() > 70 || value.back() == ' ' ||
      !std::all_of(value.begin(), value.end(), IsBoundaryCharacter)) {
    return Error(ErrorKind::kInvalid, "multipart: the boundary is not 1-70 legal characters");
  }
  return value;
}

MultipartParser::MultipartParser(std::string_view boundary, MultipartSink& sink)
    : delimiter_("\r\n--" + std::string(boundary)), sink_(sink), matched_(kLineEnd.size()) {}

Status MultipartParser::Consume(std::span<const uint8_t> data) {
  std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  while (!text.empty()) {
    const size_t before = text.size();
    switch (state_) {
      case State::kOpening:
        ARROW_RETURN_NOT_OK(Opening(text));
        break;
      case State::kAfterBoundary:
        ARROW_RETURN_NOT_OK(AfterBoundary(text));
        break;
      case State::kHeader:
        ARROW_RETURN_NOT_OK(Header(text));
        break;
      case State::kData:
        ARROW_RETURN_NOT_OK(Data(text));
        break;
      case State::kEpilogue:
        ARROW_RETURN_NOT_OK(Epilogue(text));
        break;
    }
    position_ += before - text.size();
  }
  return Status::OK();
}

Status MultipartParser::Finish() const {
  if (state_ == State::kEpilogue && (pending_.empty() || pending_ == kLineEnd)) return Status::OK();
  return Error(ErrorKind::kInvalid,
               "multipart: the body ends at byte {} without its closing boundary", position_);
}

Status MultipartParser::Opening(std::string_view& text) {
  while (!text.empty() && matched_ < delimiter_.size()) {
    if (text.front() != delimiter_[matched_]) {
      return Error(ErrorKind::kInvalid, "multipart: the body does not start with its boundary");
    }
    ++matched_;
    text.remove_prefix(1);
  }
  if (matched_ == delimiter_.size()) {
    matched_ = 0;
    state_ = State::kAfterBoundary;
  }
  return Status::OK();
}

Status MultipartParser::AfterBoundary(std::string_view& text) {
  pending_.push_back(text.front());
  text.remove_prefix(1);
  // Blanks may pad a boundary line.
  if (pending_ == " " || pending_ == "\t") pending_.clear();
  if (pending_.size() < 2) return Status::OK();
  if (pending_ == "--") {
    if (parts_ == 0) return Error(ErrorKind::kInvalid, "multipart: the body has no part");
    state_ = State::kEpilogue;
  } else if (pending_ == kLineEnd) {
    state_ = State::kHeader;
  } else {
    return Error(ErrorKind::kInvalid, "multipart: garbage behind the boundary at byte {}",
                 position_);
  }
  pending_.clear();
  return Status::OK();
}

Status MultipartParser::Header(std::string_view& text) {
  // A part may start with the empty line at once: then pending_ is "\r\n" alone.
  while (!text.empty()) {
    pending_.push_back(text.front());
    text.remove_prefix(1);
    if (pending_ == kLineEnd || pending_.ends_with("\r\n\r\n")) return BeginPart();
    if (pending_.size() > kMaxPartHeader) {
      return Error(ErrorKind::kInvalid, "multipart: the header of part {} is over {} bytes", parts_,
                   kMaxPartHeader);
    }
  }
  return Status::OK();
}

Status MultipartParser::BeginPart() {
  std::optional<std::string> name;
  bool has_disposition = false;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const size_t end = rest.find(kLineEnd);
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kLineEnd.size(), rest.size()));
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) {
      return Error(ErrorKind::kInvalid, "multipart: malformed header line in part {}", parts_);
    }
    if (!EqualsIgnoringCase(line.substr(0, colon), "content-disposition")) continue;
    const std::string_view value = Trim(line.substr(colon + 1));
    if (has_disposition ||
        !EqualsIgnoringCase(Trim(value.substr(0, value.find(';'))), "form-data")) {
      return Error(ErrorKind::kInvalid,
                   "multipart: part {} does not have one content-disposition of form-data", parts_);
    }
    has_disposition = true;
    ARROW_ASSIGN_OR_RAISE(Parameter parameter, FindParameter(value, "name"));
    if (parameter.found) name = std::move(parameter.value);
  }
  pending_.clear();
  ++parts_;
  state_ = State::kData;
  return sink_.OnPart(name);
}

Status MultipartParser::Data(std::string_view& text) {
  while (matched_ > 0 && matched_ < delimiter_.size() && !text.empty()) {
    if (text.front() == delimiter_[matched_]) {
      ++matched_;
      text.remove_prefix(1);
      continue;
    }
    // What looked like a delimiter was content. It holds no second CR, so nothing of it can start
    // another one.
    const size_t length = matched_;
    matched_ = 0;
    ARROW_RETURN_NOT_OK(Deliver(std::string_view(delimiter_).substr(0, length)));
  }
  if (matched_ == 0) {
    const size_t found = text.find(delimiter_);
    if (found != std::string_view::npos) {
      ARROW_RETURN_NOT_OK(Deliver(text.substr(0, found)));
      text.remove_prefix(found + delimiter_.size());
      matched_ = delimiter_.size();
    } else {
      const size_t start = text.rfind('\r');
      const bool candidate =
          start != std::string_view::npos && delimiter_.starts_with(text.substr(start));
      ARROW_RETURN_NOT_OK(Deliver(candidate ? text.substr(0, start) : text));
      matched_ = candidate ? text.size() - start : 0;
      text = {};
    }
  }
  if (matched_ < delimiter_.size()) return Status::OK();
  matched_ = 0;
  state_ = State::kAfterBoundary;
  return sink_.OnPartEnd();
}

Status MultipartParser::Deliver(std::string_view content) {
  if (content.empty()) return Status::OK();
  return sink_.OnData(std::span(reinterpret_cast<const uint8_t*>(content.data()), content.size()));
}

Status MultipartParser::Epilogue(std::string_view& text) {
  pending_ += text.substr(0, 4);
  text.remove_prefix(std::min<size_t>(text.size(), 4));
  if (!kLineEnd.starts_with(pending_)) {
    return Error(ErrorKind::kInvalid, "multipart: garbage behind the closing boundary");
  }
  return Status::OK();
}

}  // namespace sarissa::server
