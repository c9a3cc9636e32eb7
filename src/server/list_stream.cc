#include "server/list_stream.h"

#include <arrow/record_batch.h>

#include <algorithm>
#include <string>

#include "rollout/record_encoder.h"
#include "server/batch_memory.h"

namespace sarissa::server {
namespace {

// Rows encoded between two looks at the size of the piece.
constexpr int64_t kRowsPerStep = 16;
// Of the charge, for a batch and its decoded form.
constexpr int64_t kBatchBytes = 2 << 20;

}  // namespace

// Makes one piece at a time. Its steps hop between executors; only one of them is queued or
// running, so no lock is needed.
class ListProducer : public std::enable_shared_from_this<ListProducer> {
 public:
  ListProducer(const env::Env& env, std::shared_ptr<engine::Table> table,
               std::unique_ptr<lance::BatchStream> rows, env::Reservation charge)
      : env_(env), table_(std::move(table)), charge_(std::move(charge)), rows_(std::move(rows)) {}

  env::Future<ListPiece> Start() {
    promise_ = std::make_unique<env::Promise<ListPiece>>();
    env::Future<ListPiece> future = promise_->future();
    Step();
    return future;
  }

 private:
  void Step() {
    const bool encode = batch_ != nullptr;
    env::Executor& executor = encode ? *env_.cpu : *env_.storage;
    const bool posted = executor.Post(
        [self = shared_from_this(), encode] { encode ? self->Encode() : self->Pull(); });
    // A promise that dies unset completes as cancelled.
    if (!posted) promise_.reset();
  }

  void Pull() {
    Result<std::shared_ptr<arrow::RecordBatch>> next = rows_->Next();
    if (!next.ok()) return Finish(next.status());
    batch_ = std::move(*next);
    row_ = 0;
    if (batch_ != nullptr) return Step();
    text_ += "]}";
    rows_.reset();
    Finish(Piece(/*last=*/true));
  }

  void Encode() {
    while (row_ < batch_->num_rows() && text_.size() < ListStream::kPieceBytes) {
      const int64_t count = std::min(kRowsPerStep, batch_->num_rows() - row_);
      if (has_rows_) text_ += ',';
      has_rows_ = true;
      const Status encoded = rollout::EncodeRecords(*batch_, row_, count, text_);
      if (!encoded.ok()) return Finish(encoded);
      row_ += count;
    }
    if (row_ == batch_->num_rows()) {
      ReleaseMappedPagesOf(*batch_);
      batch_.reset();
    }
    ChargeText();
    if (text_.size() < ListStream::kPieceBytes) return Step();
    Finish(Piece(/*last=*/false));
  }

  // Large rows make large pieces. The text is there already, and the piece before may be on its way
  // to the client still.
  void ChargeText() {
    const int64_t held = kBatchBytes + handed_ + static_cast<int64_t>(text_.capacity());
    const int64_t wanted = std::max(ListStream::kChargeBytes, held);
    charge_.ShrinkTo(wanted);
    if (charge_.bytes() < wanted)
      charge_.Merge(env_.budget->Force(wanted - charge_.bytes(), env::MemoryUse::kScans));
  }

  ListPiece Piece(bool last) {
    handed_ = static_cast<int64_t>(text_.capacity());
    ListPiece piece{arrow::Buffer::FromString(std::move(text_)), last};
    text_ = std::string();
    return piece;
  }

  void Finish(Result<ListPiece> result) {
    // The next Start() may run as soon as the result is set.
    const std::unique_ptr<env::Promise<ListPiece>> promise = std::move(promise_);
    promise->Set(std::move(result));
  }

  const env::Env& env_;
  const std::shared_ptr<engine::Table> table_;
  env::Reservation charge_;
  std::unique_ptr<lance::BatchStream> rows_;
  std::unique_ptr<env::Promise<ListPiece>> promise_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t row_ = 0;
  bool has_rows_ = false;
  int64_t handed_ = 0;  // memory of the last piece
  std::string text_ = R"({"records":[)";
};

ListStream::ListStream(const env::Env& env, env::Executor& io, std::shared_ptr<engine::Table> table,
                       std::unique_ptr<lance::BatchStream> rows, env::Reservation charge)
    : io_(io),
      producer_(std::make_shared<ListProducer>(env, std::move(table), std::move(rows),
                                               std::move(charge))) {}

ListStream::~ListStream() = default;

Awaitable<Result<ListPiece>> ListStream::Take() {
  if (!pending_.valid()) pending_ = producer_->Start();
  const Result<ListPiece> piece = co_await Await(io_, pending_);
  if (!piece.ok()) co_return piece.status();
  ended_ = piece->last;
  if (!ended_) pending_ = producer_->Start();
  co_return piece;
}

Awaitable<Result<ListPiece>> ListStream::First() {
  const Result<ListPiece> piece = co_await Take();
  if (piece.ok()) first_ = *piece;
  co_return piece;
}

Awaitable<Result<std::shared_ptr<arrow::Buffer>>> ListStream::Next() {
  if (first_.text != nullptr) co_return std::exchange(first_.text, nullptr);
  if (ended_) co_return nullptr;
  const Result<ListPiece> piece = co_await Take();
  if (!piece.ok()) co_return piece.status();
  co_return piece->text;
}

}  // namespace sarissa::server
