// The body of the list route: batches pulled on the storage executor, encoded on the cpu executor,
// handed to the connection in pieces. One piece is being written while the next one is made, and no
// more: a slow client holds the scan back.
#pragma once

#include <memory>

#include "engine/table.h"
#include "env/env.h"
#include "server/await.h"
#include "server/http_message.h"

namespace sarissa::server {

struct ListPiece {
  std::shared_ptr<arrow::Buffer> text;
  bool last = false;
};

class ListProducer;

class ListStream final : public BodySource {
 public:
  static constexpr size_t kPieceBytes = 256 << 10;
  // Charged to the budget for as long as the stream lives: two pieces, a batch and its decoded
  // form. Pieces that turn out larger are charged when they are made, without asking.
  static constexpr int64_t kChargeBytes = 4 << 20;

  // Keeps `table` open. Everything borrowed outlives the stream.
  ListStream(const env::Env& env, env::Executor& io, std::shared_ptr<engine::Table> table,
             std::unique_ptr<lance::BatchStream> rows, env::Reservation charge);
  ~ListStream() override;

  // Makes the first piece, which must be done before anything is sent: an early error still gets
  // its own answer.
  Awaitable<Result<ListPiece>> First();
  // The pieces from the first one on.
  Awaitable<Result<std::shared_ptr<arrow::Buffer>>> Next() override;

 private:
  Awaitable<Result<ListPiece>> Take();

  env::Executor& io_;
  const std::shared_ptr<ListProducer> producer_;
  env::Future<ListPiece> pending_;
  ListPiece first_;
  bool ended_ = false;
};

}  // namespace sarissa::server
