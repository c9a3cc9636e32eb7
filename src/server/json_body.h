// The small JSON bodies (create, checkout): reading one, and its typed form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "server/await.h"
#include "server/http_message.h"

namespace sarissa::server {

// The whole body as text, at most `limit` bytes.
Awaitable<Result<std::string>> ReadText(BodyReader& body, uint64_t limit);

// True for application/json and application/*+json, with or without parameters.
bool IsJsonContentType(std::string_view content_type);

// The type and subtype in lower case, without parameters and blanks around.
std::string MediaType(std::string_view content_type);

struct CreateStoreBody {
  std::string name;
};

struct CheckoutBody {
  std::optional<uint64_t> version;  // unset for null: back to the newest
};

// The parsed body, or the answer: 400 when it is not JSON, 422 when the JSON has another shape. Unknown fields are ignored.
std::variant<CreateStoreBody, Response> ParseCreateStore(std::string_view text);
std::variant<CheckoutBody, Response> ParseCheckout(std::string_view text);

}  // namespace sarissa::server
