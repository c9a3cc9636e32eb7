// JSON append bodies, plain and as the metadata of a multipart body. The rows, written as JSON, are
// a body that gives the same rows.
#include "tests/fuzz/append_rows.h"

namespace sarissa::rollout {
namespace {

void Check(std::span<const uint8_t> data) {
  const std::string body(data.begin(), data.end());
  const DecodeOptions options;
  const auto decoded = DecodeAppend(body, {}, options);
  if (decoded.ok()) {
    const std::string json = CheckedJson(*decoded);
    const auto again = DecodeAppend(json, {}, options);
    SARISSA_CHECK(again.ok(), "{}", again.status().message());
    SARISSA_CHECK(CheckedJson(*again) == json);
    SARISSA_CHECK(again->ids == decoded->ids);
  } else {
    SARISSA_CHECK(Is(decoded.status(), ErrorKind::kInvalid), "{}", decoded.status().ToString());
  }
  const PayloadParts parts = {{0, arrow::Buffer::FromString("abc")}};
  const auto multipart = DecodeAppend(body, parts, {.now = {}, .multipart = true});
  if (multipart.ok()) CheckedJson(*multipart);
}

}  // namespace
}  // namespace sarissa::rollout

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::rollout::Check({data, size});
  return 0;
}
