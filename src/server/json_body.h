// The small JSON bodies (create, checkout): reading one, and its typed form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  // What is wrong with the shape of a body that is JSON; empty when nothing is.
  std::string problem;
};

struct CheckoutBody {
  std::optional<uint64_t> version;  // unset for null: back to the newest
  std::string problem;
};

// kInvalid when the text is not JSON. Unknown fields are ignored. Thread safe.
Result<CreateStoreBody> ParseCreateStore(std::string_view text);
Result<CheckoutBody> ParseCheckout(std::string_view text);

}  // namespace sarissa::server
