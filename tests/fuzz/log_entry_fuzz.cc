// Log entries. What decodes is valid to the last value, so that it can be replayed; entries with a
// checksum are also tried with the right one.
#include "memwal/log_entry.h"
#include "tests/fuzz/fuzz_input.h"

namespace sarissa::memwal {
namespace {

constexpr size_t kStreamBytesAt = 24;  // in the trailer

void Check(std::span<const uint8_t> data) {
  const auto bytes = fuzz::ExactBuffer(data);
  const bool torn = IsTornLogEntry(bytes);
  const auto entry = DecodeLogEntry("fuzz", bytes);
  SARISSA_CHECK(!torn || !entry.ok(), "a whole entry passes for a torn one");
  if (!entry.ok()) {
    SARISSA_CHECK(Is(entry.status(), ErrorKind::kCorrupt), "{}", entry.status().ToString());
    return;
  }
  for (const auto& batch : entry->batches) {
    SARISSA_CHECK(batch->num_rows() > 0);
    const Status valid = batch->ValidateFull();
    SARISSA_CHECK(valid.ok(), "{}", valid.ToString());
  }
}

void CheckWithTrailer(std::span<const uint8_t> data) {
  if (!ParseLogTrailer(data).has_value()) return;
  std::vector<uint8_t> bytes(data.begin(), data.end());
  const size_t trailer = bytes.size() - kLogTrailerBytes;
  for (size_t i = 0; i < 8; ++i) {
    bytes[trailer + kStreamBytesAt + i] = static_cast<uint8_t>(uint64_t{trailer} >> (8 * i));
  }
  Check(fuzz::WithChecksum(bytes));
}

}  // namespace
}  // namespace sarissa::memwal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::memwal::Check({data, size});
  sarissa::memwal::CheckWithTrailer({data, size});
  return 0;
}
