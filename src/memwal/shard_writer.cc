#include "memwal/shard_writer.h"

namespace sarissa::memwal {
namespace {

int KeyColumnOf(const lance::Schema& schema) {
  const auto key = schema.PrimaryKey();
  SARISSA_CHECK(key.size() == 1, "a table has exactly one primary key column, this one {}",
                key.size());
  const int column = schema.arrow_schema()->GetFieldIndex(key.front());
  SARISSA_CHECK(column >= 0, "the key column {} is a top-level column", key.front());
  return column;
}

}  // namespace

ShardWriter::ShardWriter(ShardOptions options)
    : options_(std::move(options)),
      key_column_(KeyColumnOf(options_.storage_schema)),
      manifests_(*options_.store, options_.table, options_.shard),
      log_(*options_.store, options_.table, options_.shard),
      log_retries_(options_.env->metrics->GetCounter("rollout_wal_append_retries_total",
                                                     "Log appends that were tried again")),
      flush_failures_total_(options_.env->metrics->GetCounter(
          "rollout_wal_flush_failures_total", "Flush attempts of a generation that failed")),
      fenced_writers_(options_.env->metrics->GetCounter(
          "rollout_wal_fenced_total", "Writers that lost their shard to a higher epoch")),
      failed_writers_(options_.env->metrics->GetCounter(
          "rollout_wal_failed_total", "Writers that stopped because of a failure")) {}

// Promises that are still held complete as cancelled when they are destroyed.
ShardWriter::~ShardWriter() = default;

Result<std::shared_ptr<ShardWriter>> ShardWriter::Open(ShardOptions options) {
  if (options.memtable_bytes <= 0 || options.memtable_rows <= 0) {
    return Error(ErrorKind::kInvalid, "memtable_bytes and memtable_rows must be positive");
  }
  std::shared_ptr<ShardWriter> writer(new ShardWriter(std::move(options)));
  ARROW_RETURN_NOT_OK(writer->Recover());
  return writer;
}

bool ShardWriter::AcceptsLocked() const {
  return state_ == WriterState::kActive;
}

env::Future<AppendResult> ShardWriter::Append(
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches, env::Reservation charge) {
  QueuedAppend append;
  append.bytes = 0;
  for (const auto& batch : batches) append.bytes += PinnedBytes(*batch);
  append.batches = std::move(batches);
  append.charge = std::move(charge);
  env::Future<AppendResult> future = append.promise.future();

  {
    const std::scoped_lock lock(mutex_);
    if (!AcceptsLocked()) {
      const Status refused = cause_.ok() ? Error(ErrorKind::kCancelled, "shard {} is closing",
                                                 options_.shard.ToString())
                                         : cause_;
      return env::Future<AppendResult>::Ready(refused);
    }
    queue_.push_back(std::move(append));
    StartLogTask();
  }
  FailIfUndispatched();
  return future;
}

void ShardWriter::Freeze() {
  Frozen frozen;
  frozen.memtable = active_;
  frozen.groups_in_flight = active_groups_in_flight_;
  active_ = std::make_shared<Memtable>(active_->generation().Next(), key_column_);
  active_groups_in_flight_ = 0;
  frozen_.push_back(std::move(frozen));
  StartFlushTask();
}

void ShardWriter::FreezeIfFull() {
  if (!AcceptsLocked() && state_ != WriterState::kClosing) return;
  if (active_->bytes() < options_.memtable_bytes && active_->rows() < options_.memtable_rows)
    return;
  Freeze();
}

SealFence ShardWriter::Seal() {
  std::optional<Generation> sealed;
  std::vector<env::Future<FlushOutcome>> outcomes;
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == WriterState::kFenced || state_ == WriterState::kFailed)
      return SealFence(std::nullopt, {}, cause_);
    if (active_->rows() > 0) {
      sealed = active_->generation();
      Freeze();
    }
    outcomes.reserve(frozen_.size());
    for (const Frozen& frozen : frozen_) outcomes.push_back(frozen.promise.future());
  }
  FailIfUndispatched();
  return SealFence(sealed, std::move(outcomes), Status::OK());
}

void ShardWriter::FailIfUndispatched() {
  {
    const std::scoped_lock lock(mutex_);
    if (!undispatched_) return;
  }
  Fail(Error(ErrorKind::kCancelled, "the process is stopping; rows of shard {} are in the log",
             options_.shard.ToString()));
}

void ShardWriter::Fail(const Status& cause) {
  std::deque<QueuedAppend> refused;
  std::vector<env::Promise<FlushOutcome>> unflushed;
  {
    const std::scoped_lock lock(mutex_);
    if (state_ == WriterState::kFenced || state_ == WriterState::kFailed ||
        state_ == WriterState::kClosed)
      return;
    const ErrorKind kind = KindOf(cause);
    const bool not_ours = kind == ErrorKind::kFenced || kind == ErrorKind::kNotFound;
    state_ = not_ours ? WriterState::kFenced : WriterState::kFailed;
    cause_ = kind == ErrorKind::kOutcomeUnknown ? WithKind(cause, ErrorKind::kFailedWriter) : cause;
    refused.swap(queue_);
    for (Frozen& frozen : frozen_)
      unflushed.push_back(std::exchange(frozen.promise, env::Promise<FlushOutcome>()));
  }
  if (state() == WriterState::kFenced) {
    fenced_writers_.Add();
  } else {
    failed_writers_.Add();
  }
  for (auto& append : refused) append.promise.Set(status());
  for (auto& promise : unflushed) promise.Set(status());
  FinishCloseIfIdle();
}

ShardView ShardWriter::View() const {
  const std::scoped_lock lock(mutex_);
  ShardView view;
  if (state_ == WriterState::kFenced) {
    view.owned = false;
    return view;
  }
  view.generations.assign(manifest_.sstables().begin(), manifest_.sstables().end());
  for (const Frozen& frozen : frozen_) view.memtables.push_back(frozen.memtable->View());
  view.memtables.push_back(active_->View());
  return view;
}

WriterState ShardWriter::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

Status ShardWriter::status() const {
  const std::scoped_lock lock(mutex_);
  return cause_;
}

ShardHealth ShardWriter::Health() const {
  const std::scoped_lock lock(mutex_);
  ShardHealth health;
  health.state = state_;
  health.cause = cause_;
  health.flush_trouble = flush_trouble_;
  health.flush_failures = flush_failures_;
  health.frozen_generations = frozen_.size();
  health.unflushed_bytes = active_->bytes();
  for (const Frozen& frozen : frozen_) health.unflushed_bytes += frozen.memtable->bytes();
  return health;
}

std::optional<env::MonotonicTime> ShardWriter::oldest_unflushed() const {
  const std::scoped_lock lock(mutex_);
  if (!frozen_.empty()) return frozen_.front().memtable->first_insert();
  return active_->first_insert();
}

env::Future<CloseReport> ShardWriter::Close(CloseMode mode, env::Duration deadline) {
  env::Future<CloseReport> future;
  {
    const std::scoped_lock lock(mutex_);
    if (mode == CloseMode::kDiscard) discard_ = true;
    if (close_future_.valid()) return close_future_;
    close_promise_.emplace();
    close_future_ = close_promise_->future();
    future = close_future_;
    if (state_ == WriterState::kActive) state_ = WriterState::kClosing;
  }
  FinishCloseIfIdle();
  if (deadline.count() == 0 || future.IsReady()) return future;
  env::Executor& executor = *options_.env->storage;
  const env::TimerId timer =
      executor.PostAfter(deadline, [self = shared_from_this()] { self->EndCloseAtDeadline(); });
  if (timer == 0) {
    EndCloseAtDeadline();
  } else {
    future.Then(executor, [&executor, timer](const auto&) { executor.CancelTimer(timer); });
  }
  return future;
}

CloseReport ShardWriter::MakeCloseReport() {
  CloseReport report;
  for (const Frozen& frozen : frozen_) report.only_in_log.push_back(frozen.memtable->generation());
  if (active_->rows() > 0) report.only_in_log.push_back(active_->generation());
  report.cause = cause_;
  return report;
}

// Called after every step: the last one to end closes.
void ShardWriter::FinishCloseIfIdle() {
  std::optional<env::Promise<CloseReport>> promise;
  CloseReport report;
  {
    const std::scoped_lock lock(mutex_);
    if (!close_promise_) return;
    const bool broken = state_ == WriterState::kFenced || state_ == WriterState::kFailed;
    if (log_task_running_ || (!queue_.empty() && !broken)) return;
    const bool flushes = !broken && !discard_;
    if (flushes && active_->rows() > 0) Freeze();
    if (flush_task_running_ || (flushes && !frozen_.empty())) return;
    report = MakeCloseReport();
    if (!broken) state_ = WriterState::kClosed;
    promise = std::exchange(close_promise_, std::nullopt);
  }
  promise->Set(std::move(report));
}

void ShardWriter::EndCloseAtDeadline() {
  std::optional<env::Promise<CloseReport>> promise;
  CloseReport report;
  {
    const std::scoped_lock lock(mutex_);
    if (!close_promise_) return;
    discard_ = true;  // no further attempt to flush
    report = MakeCloseReport();
    if (report.cause.ok()) {
      report.cause = Error(ErrorKind::kDeadline, "shard {} did not close in time{}{}",
                           options_.shard.ToString(), flush_trouble_.ok() ? "" : ": ",
                           flush_trouble_.ok() ? "" : flush_trouble_.message());
    }
    promise = std::exchange(close_promise_, std::nullopt);
  }
  promise->Set(std::move(report));
}

}  // namespace sarissa::memwal
