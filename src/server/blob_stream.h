// The body of the blob route: one payload in pieces. A mapped payload is read piece by piece on the
// storage executor and its pages are given back, so that a large download costs a piece of memory.
#pragma once

#include <cstdint>
#include <memory>

#include "env/env.h"
#include "env/memory_budget.h"
#include "server/await.h"
#include "server/http_message.h"

namespace sarissa::server {

class BlobStream final : public BodySource {
 public:
  static constexpr int64_t kPieceBytes = 256 << 10;

  BlobStream(const env::Env& env, env::Executor& io, std::shared_ptr<arrow::Buffer> payload,
             env::Reservation charge)
      : env_(env), io_(io), payload_(std::move(payload)), charge_(std::move(charge)) {}

  Awaitable<Result<std::shared_ptr<arrow::Buffer>>> Next() override;

 private:
  const env::Env& env_;
  env::Executor& io_;
  const std::shared_ptr<arrow::Buffer> payload_;
  const env::Reservation charge_;
  int64_t position_ = 0;
};

}  // namespace sarissa::server
