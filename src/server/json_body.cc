#include "server/json_body.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace sarissa::server {
namespace {

// Calls `field(key, value)` for every member until it returns a text that says what is wrong; that
// text is the result.
template <typename Field>
Result<std::string> VisitObject(std::string_view text, const Field& field) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const simdjson::error_code error = parser.parse(text.data(), text.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return Error(ErrorKind::kInvalid, "the body is not valid JSON: {}",
                 simdjson::error_message(error));
  }
  simdjson::dom::object object;
  if (root.get(object) != simdjson::SUCCESS) return "the body is not a JSON object";
  for (const auto member : object) {
    std::string problem = field(member.key, member.value);
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string CheckStorageOptions(const simdjson::dom::element& value) {
  if (value.is_null()) return "";
  simdjson::dom::object options;
  if (value.get(options) != simdjson::SUCCESS) {
    return "storage_options: expected an object of strings or null";
  }
  for (const auto member : options) {
    if (!member.value.is_string()) {
      return fmt::format("storage_options.{}: expected a string", member.key);
    }
  }
  return "";
}

}  // namespace

Awaitable<Result<std::string>> ReadText(BodyReader& body, uint64_t limit) {
  body.set_limit(limit);
  std::string text;
  constexpr size_t kPiece = 64 << 10;
  size_t piece = std::min<uint64_t>(body.length().value_or(kPiece), kPiece) + 1;
  for (;;) {
    const size_t have = text.size();
    text.resize(have + piece);
    const Result<size_t> got =
        co_await body.Read(std::span(reinterpret_cast<uint8_t*>(text.data()) + have, piece));
    if (!got.ok()) co_return got.status();
    text.resize(have + *got);
    if (*got == 0) co_return text;
    piece = kPiece;
  }
}

std::string MediaType(std::string_view content_type) {
  std::string type(content_type.substr(0, content_type.find(';')));
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!type.empty() && blank(type.back())) type.pop_back();
  type.erase(type.begin(), std::find_if_not(type.begin(), type.end(), blank));
  std::transform(type.begin(), type.end(), type.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return type;
}

bool IsJsonContentType(std::string_view content_type) {
  const std::string type = MediaType(content_type);
  return type == "application/json" ||
         (type.starts_with("application/") && type.ends_with("+json"));
}

Result<CreateStoreBody> ParseCreateStore(std::string_view text) {
  CreateStoreBody body;
  bool has_name = false;
  bool has_options = false;
  const auto field = [&](std::string_view key, const simdjson::dom::element& value) -> std::string {
    if (key == "name") {
      if (std::exchange(has_name, true)) return "name: given more than once";
      std::string_view given;
      if (value.get(given) != simdjson::SUCCESS) return "name: expected a string";
      body.name = given;
    } else if (key == "storage_options") {
      if (std::exchange(has_options, true)) return "storage_options: given more than once";
      return CheckStorageOptions(value);
    }
    return "";
  };
  ARROW_ASSIGN_OR_RAISE(body.problem, VisitObject(text, field));
  if (body.problem.empty() && !has_name) body.problem = "name: missing";
  return body;
}

Result<CheckoutBody> ParseCheckout(std::string_view text) {
  CheckoutBody body;
  bool seen = false;
  const auto field = [&](std::string_view key, const simdjson::dom::element& value) -> std::string {
    if (key != "version") return "";
    if (std::exchange(seen, true)) return "version: given more than once";
    if (value.is_null()) return "";
    uint64_t version = 0;
    if (value.get(version) != simdjson::SUCCESS) {
      return "version: expected a non-negative integer of 64 bits, or null";
    }
    body.version = version;
    return "";
  };
  ARROW_ASSIGN_OR_RAISE(body.problem, VisitObject(text, field));
  if (body.problem.empty() && !seen) body.problem = "version: missing";
  return body;
}

}  // namespace sarissa::server
