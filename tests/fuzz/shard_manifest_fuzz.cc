// Shard manifests: what decodes is the same after it was encoded and decoded again, and never under
// another version.
#include "memwal/shard_manifest.h"
#include "tests/fuzz/fuzz_input.h"

namespace sarissa::memwal {
namespace {

void Check(std::span<const uint8_t> data) {
  const auto bytes = fuzz::ExactBuffer(data);
  ShardManifest raw;
  if (!raw.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) return;
  const ShardManifestVersion version(raw.version());
  SARISSA_CHECK(!DecodeShardManifest("fuzz", *bytes, version.Next()).ok());
  const auto manifest = DecodeShardManifest("fuzz", *bytes, version);
  if (!manifest.ok()) return;
  const std::string encoded = EncodeShardManifest(*manifest);
  const auto again =
      DecodeShardManifest("fuzz", *fuzz::ExactBuffer(fuzz::BytesOf(encoded)), version);
  SARISSA_CHECK(again.ok(), "{}", again.status().message());
  SARISSA_CHECK(EncodeShardManifest(*again) == encoded);
}

}  // namespace
}  // namespace sarissa::memwal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::memwal::Check({data, size});
  // The checksum covers all but its own field of seven bytes.
  std::vector<uint8_t> bytes(data, data + size);
  if (size > 7) {
    const uint32_t crc = sarissa::Crc32c({data, size - 7});
    for (size_t i = 0; i < 4; ++i) bytes[size - 4 + i] = static_cast<uint8_t>(crc >> (8 * i));
    sarissa::memwal::Check(bytes);
  }
  return 0;
}
