// A multipart append body on its way in: the `metadata` part in memory, payload parts by index,
// large ones spooled to a file.
//
// Memory is charged before it is used: the metadata, the parts that stay in memory and the write
// buffer; a part that reaches env::kMapThresholdBytes moves to the spool and its charge serves the
// next. Calls block (the spool) and belong on the storage executor; one thread at a time. Errors:
// kInvalid for a body that breaks the contract, kOverloaded, those of the file system.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "env/env.h"
#include "rollout/record_decoder.h"
#include "server/multipart_parser.h"
#include "server/spool.h"

namespace sarissa::server {

class MultipartUpload final : private MultipartSink {
 public:
  // `env` outlives it. `charge` covers what the caller itself holds for the upload; it grows.
  MultipartUpload(const env::Env& env, std::string spool_directory, std::string_view boundary,
                  env::Reservation charge);

  Status Consume(std::span<const uint8_t> data) { return parser_.Consume(data); }
  // The body ended.
  Status Finish();

  // After Finish().
  const std::string& metadata() const { return metadata_; }
  const rollout::PayloadParts& parts() const { return parts_; }
  env::Reservation TakeCharge() { return std::move(charge_); }

 private:
  struct SpooledPart {
    uint64_t index;
    uint64_t offset;
    uint64_t length;
  };

  Status OnPart(const std::optional<std::string>& name) override;
  Status OnData(std::span<const uint8_t> data) override;
  Status OnPartEnd() override;

  // Makes the charge cover what is held for good and `growing` bytes of a string that still grows.
  Status Charge(size_t growing);
  Status MoveToSpool();

  const env::Env& env_;
  const std::string spool_directory_;
  MultipartParser parser_;
  env::Reservation charge_;
  int64_t held_;  // of it, in use by the caller and by parts that are complete

  bool has_metadata_ = false;
  bool in_metadata_ = false;
  std::string metadata_;
  // The current payload part: in memory, or in the spool from `spool_offset_` on.
  uint64_t index_ = 0;
  std::string small_;
  std::optional<uint64_t> spool_offset_;

  std::unique_ptr<Spool> spool_;
  std::vector<SpooledPart> spooled_;
  rollout::PayloadParts parts_;  // spooled ones are null until Finish
};

}  // namespace sarissa::server
