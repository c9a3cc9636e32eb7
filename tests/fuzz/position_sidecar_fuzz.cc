// Position sidecars: what decodes is encoded to the very same bytes.
#include "memwal/position_sidecar.h"
#include "tests/fuzz/fuzz_input.h"

namespace sarissa::memwal {
namespace {

void Check(std::vector<uint8_t> bytes) {
  const auto runs = DecodePositionSidecar(bytes);
  if (!runs.has_value()) return;
  const std::string again = EncodePositionSidecar(*runs);
  SARISSA_CHECK(DecodePositionSidecar(fuzz::BytesOf(again)) == runs);
}

}  // namespace
}  // namespace sarissa::memwal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::memwal::Check({data, data + size});
  sarissa::memwal::Check(sarissa::fuzz::WithChecksum({data, size}));
  return 0;
}
