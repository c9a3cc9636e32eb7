// Multipart bodies of the boundary "b": the parser says the same wherever the body is cut.
#include "server/multipart_parser.h"
#include "tests/fuzz/fuzz_input.h"

namespace sarissa::server {
namespace {

class Recorder final : public MultipartSink {
 public:
  std::string log;

 private:
  Status OnPart(const std::optional<std::string>& name) override {
    SARISSA_CHECK(!std::exchange(open_, true));
    log += name.has_value() ? "[" + *name + "]" : "-";
    return Status::OK();
  }
  Status OnData(std::span<const uint8_t> data) override {
    SARISSA_CHECK(open_);
    log.append(data.begin(), data.end());
    return Status::OK();
  }
  Status OnPartEnd() override {
    SARISSA_CHECK(std::exchange(open_, false));
    log += '|';
    return Status::OK();
  }

  bool open_ = false;
};

struct Outcome {
  std::string log;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

// Pieces of 1 to `longest` bytes.
Outcome Parse(std::span<const uint8_t> body, uint64_t seed, size_t longest) {
  Recorder recorder;
  MultipartParser parser("b", recorder);
  Status status;
  while (status.ok() && !body.empty()) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    const size_t size = std::min<size_t>(body.size(), 1 + (seed >> 33) % longest);
    const auto piece = fuzz::ExactBuffer(body.first(size));
    status = parser.Consume({piece->data(), size});
    body = body.subspan(size);
  }
  if (status.ok()) status = parser.Finish();
  // How much was delivered before an error depends on the pieces.
  if (!status.ok()) return {"", std::string(status.message())};
  return {recorder.log, ""};
}

void Check(std::span<const uint8_t> data) {
  const uint64_t seed = fuzz::SeedOf(data);
  const Outcome whole = Parse(data, seed, data.size() + 1);
  for (const size_t longest : {size_t{1}, size_t{3}, size_t{64}}) {
    const Outcome pieces = Parse(data, seed, longest);
    SARISSA_CHECK(pieces == whole, "'{}' {} / '{}' {}", whole.log, whole.error, pieces.log,
                  pieces.error);
  }
  (void)MultipartBoundary({reinterpret_cast<const char*>(data.data()), data.size()});
}

}  // namespace
}  // namespace sarissa::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sarissa::server::Check({data, size});
  return 0;
}
