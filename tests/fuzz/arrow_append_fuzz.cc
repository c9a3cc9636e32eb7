// Arrow append bodies. The rows, written as an Arrow stream and as JSON, are bodies that give the
// same rows.
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>

#include "rollout/arrow_batch_decoder.h"
#include "tests/fuzz/append_rows.h"

namespace sarissa::rollout {
namespace {

constexpr int64_t kMaxBytes = 4 << 20;

std::shared_ptr<arrow::Buffer> StreamOf(const DecodedAppend& decoded) {
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto writer = arrow::ipc::MakeStreamWriter(out, RecordSchema()).ValueOrDie();
  for (const auto& batch : decoded.batches) SARISSA_CHECK(writer->WriteRecordBatch(*batch).ok());
  SARISSA_CHECK(writer->Close().ok());
  return out->Finish().ValueOrDie();
}

void Check(std::span<const uint8_t> data) {
  int64_t charged = 0;
  ArrowDecodeOptions options;
  options.max_bytes = kMaxBytes;
  options.charge = [&charged](int64_t bytes) {
    charged += bytes;
    return Status::OK();
  };
  const auto decoded = DecodeArrowAppend(fuzz::ExactBuffer(data), options);
  if (!decoded.ok()) {
    SARISSA_CHECK(Is(decoded.status(), ErrorKind::kInvalid), "{}", decoded.status().ToString());
    return;
  }
  SARISSA_CHECK(charged > 0);
  const std::string json = CheckedJson(*decoded);
  ArrowDecodeOptions roomy;
  const auto as_arrow = DecodeArrowAppend(StreamOf(*decoded), roomy);
  SARISSA_CHECK(as_arrow.ok(), "{}", as_arrow.status().message());
  SARISSA_CHECK(CheckedJson(*as_arrow) == json);
  SARISSA_CHECK(as_arrow->payload_bytes == decoded->payload_bytes);
  const auto as_json = DecodeAppend(json, {}, {});
  SARISSA_CHECK(as_json.ok(), "{}", as_json.status().message());
  SARISSA_CHECK(CheckedJson(*as_json) == json);
}

}  // namespace
}  // namespace sarissa::rollout

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::rollout::Check({data, size});
  return 0;
}
