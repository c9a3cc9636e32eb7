// Table manifests: what parses is the same after it was serialized and parsed again.
#include "lance/file/schema.h"
#include "lance/table/manifest.h"
#include "tests/fuzz/fuzz_input.h"

namespace sarissa::lance {
namespace {

void Check(std::span<const uint8_t> data) {
  const auto bytes = fuzz::ExactBuffer(data);
  (void)IsTornManifest(*bytes);
  const auto loaded = ParseManifest("fuzz", *bytes);
  if (!loaded.ok()) return;
  (void)Schema::FromProto(loaded->manifest.fields(), {});
  const auto written = SerializeManifest(*loaded);
  if (!written.ok()) return;
  const auto again = ParseManifest("fuzz", *fuzz::ExactBuffer(fuzz::BytesOf(*written)));
  SARISSA_CHECK(again.ok(), "{}", again.status().message());
  SARISSA_CHECK(again->manifest.fragments_size() == loaded->manifest.fragments_size());
  SARISSA_CHECK(again->manifest.version() == loaded->manifest.version());
  SARISSA_CHECK(again->indices.SerializeAsString().size() ==
                loaded->indices.SerializeAsString().size());
}

}  // namespace
}  // namespace sarissa::lance

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::lance::Check({data, size});
  return 0;
}
