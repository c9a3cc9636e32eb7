#include "engine/engine_table.h"

#include <algorithm>
#include <set>

#include "engine/log_tip.h"
#include "engine/merge_scan.h"
#include "engine/newest_version.h"
#include "env/mapped_range.h"
#include "memwal/mem_wal_index.h"
#include "memwal/names.h"
#include "memwal/storage_schema.h"

namespace sarissa::engine {
namespace {

// A merge by another process may remove a generation between reading the shard manifest and opening
// it.
constexpr int kSnapshotTries = 4;

// Readers of generations that are not named any more: kept while there are so few of them.
constexpr size_t kSpareGenerations = 16;

// Measured with the rollout schema.
constexpr int64_t kHandleBytes = 44 << 10;
constexpr int64_t kWriterBytes = 16 << 10;
constexpr int64_t kReaderBytes = 60 << 10;
// A generation named by another shard's manifest.
constexpr int64_t kNamedGenerationBytes = 256;
// A node of the key map and its share of the buckets.
constexpr int64_t kKeyMapEntryBytes = 64;

int64_t MemoryOf(const lance::Table& table) {
  return static_cast<int64_t>(table.manifest().SpaceUsedLong() + table.indices().SpaceUsedLong());
}

int64_t MemoryOf(const GenerationKeys& keys) {
  int64_t bytes = static_cast<int64_t>(keys.rows.capacity() * sizeof(keys.rows[0]));
  for (const auto& column : keys.columns) {
    for (const auto& buffer : column->data()->buffers) {
      if (buffer != nullptr && !env::IsMapped(*buffer)) bytes += buffer->capacity();
    }
  }
  return bytes;
}

}  // namespace

// An append that waits for the writer or for the stored dictionary values.
struct EngineTable::PendingAppend {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  env::Reservation charge;
  env::Promise<AppendReceipt> promise;
};

// A stream that opens files as it goes.
class EngineTable::CheckedStream final : public lance::BatchStream {
 public:
  CheckedStream(std::shared_ptr<EngineTable> table, std::unique_ptr<lance::BatchStream> inner)
      : table_(std::move(table)), inner_(std::move(inner)) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return inner_->schema(); }
  Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    return table_->NotMerelyMissing(inner_->Next());
  }

 private:
  const std::shared_ptr<EngineTable> table_;
  const std::unique_ptr<lance::BatchStream> inner_;
};

EngineTable::EngineTable(object_store::ObjectStore& store, const env::Env& env, TableHome home,
                         std::string name, std::string path)
    : store_(store),
      env_(env),
      home_(std::move(home)),
      options_(home_.options),
      claims_(home_.claims),
      name_(std::move(name)),
      path_(std::move(path)),
      shard_(ShardId::FromName(options_->instance_id)) {}

Result<std::shared_ptr<EngineTable>> EngineTable::Open(object_store::ObjectStore& store,
                                                       const env::Env& env, TableHome home,
                                                       const std::string& name,
                                                       const std::string& path) {
  std::shared_ptr<EngineTable> table(new EngineTable(store, env, std::move(home), name, path));
  ARROW_RETURN_NOT_OK(table->OpenTable());
  table->Recharge();
  return table;
}

int64_t EngineTable::PinnedBytes() const {
  const std::scoped_lock lock(mutex_);
  return PinnedBytesLocked();
}

int64_t EngineTable::PinnedBytesLocked() const {
  int64_t bytes = kHandleBytes + base_bytes_ + key_map_bytes_;
  if (writer_ != nullptr) bytes += kWriterBytes;
  if (pinned_ != nullptr) bytes += pinned_bytes_;
  for (const auto& [shard, foreign] : foreign_)
    bytes += static_cast<int64_t>(foreign.generations.size()) * kNamedGenerationBytes;
  for (const auto& [folder, generation] : generations_) bytes += generation.bytes;
  return bytes;
}

void EngineTable::Recharge() {
  // Ends after the lock: whoever waits for memory is served when it is given back.
  env::Reservation surplus;
  const std::scoped_lock lock(mutex_);
  const int64_t missing = PinnedBytesLocked() - pin_charge_.bytes();
  if (missing > 0) pin_charge_.Merge(env_.budget->Force(missing, env::MemoryUse::kCaches));
  if (missing < 0) surplus = pin_charge_.Split(-missing);
}

Status EngineTable::OpenTable() {
  ARROW_ASSIGN_OR_RAISE(base_, lance::Table::Open({&store_, &env_}, path_));
  const auto key = base_->schema().PrimaryKey();
  if (key.size() != 1) {
    return Error(ErrorKind::kUnsupported, "{} has {} primary key columns; one is supported", path_,
                 key.size());
  }
  key_column_ = key.front();
  ARROW_RETURN_NOT_OK(CheckSchema());
  user_schema_ = base_->schema().arrow_schema();
  base_file_version_ = base_->file_version();
  ARROW_ASSIGN_OR_RAISE(storage_schema_, memwal::StorageSchema(base_->schema()));
  dictionary_limit_ = std::make_unique<DictionaryLimit>(*user_schema_);
  if (!memwal::HasMemWalIndex(*base_)) {
    ARROW_ASSIGN_OR_RAISE(base_, memwal::InitializeMemWal(base_, env_));
  }
  base_bytes_ = MemoryOf(*base_);
  // The new owner's rows are read from disk, as any other server does.
  if (!claims_->Recall(path_).fenced.ok()) return Status::OK();
  // Rows that an earlier process with this instance id acknowledged must be visible at once.
  ARROW_ASSIGN_OR_RAISE(const bool unflushed, LogHasUnflushedRows(store_, path_, shard_));
  if (!unflushed) return Status::OK();
  return EnsureWriter()
      .Get()
      .status();  // nobody else knows this table yet, so it opens here and now
}

// A table that another version made may lack columns, or have others: refused by name before a row
// is lost in it.
Status EngineTable::CheckSchema() const {
  const arrow::Schema& expected = *options_->schema.arrow_schema();
  const arrow::Schema& found = *base_->schema().arrow_schema();
  for (int i = 0; i < std::max(expected.num_fields(), found.num_fields()); ++i) {
    if (i >= found.num_fields()) {
      return Error(ErrorKind::kUnsupported, "{} has no column '{}'", path_,
                   expected.field(i)->name());
    }
    if (i >= expected.num_fields() || found.field(i)->name() != expected.field(i)->name() ||
        !found.field(i)->type()->Equals(*expected.field(i)->type())) {
      return Error(ErrorKind::kUnsupported,
                   "{}: column {} is '{}' of type {}, which this server does not write", path_, i,
                   found.field(i)->name(), found.field(i)->type()->ToString());
    }
  }
  return Status::OK();
}

TableVersion EngineTable::version() const {
  const std::scoped_lock lock(mutex_);
  if (pinned_ != nullptr && env_.clock->Now() < pinned_until_) return pinned_->version();
  return base_->version();
}

env::Future<env::Unit> EngineTable::Mark() {
  {
    const std::scoped_lock lock(mutex_);
    if (mark_.valid() && !(mark_.IsReady() && !mark_.Get().ok())) return mark_;
  }
  auto mark = home_.mark_dirty();
  mark.Then(*env_.storage, [weak = weak_from_this()](const auto& marked) {
    const auto self = weak.lock();
    if (self == nullptr || !marked.ok()) return;
    const std::scoped_lock lock(self->mutex_);
    self->marked_ = true;
  });
  const std::scoped_lock lock(mutex_);
  mark_ = mark;
  return mark;
}

env::Future<std::shared_ptr<memwal::ShardWriter>> EngineTable::EnsureWriter() {
  using WriterFuture = env::Future<std::shared_ptr<memwal::ShardWriter>>;
  env::Promise<std::shared_ptr<memwal::ShardWriter>> promise;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_)
      return WriterFuture::Ready(Error(ErrorKind::kCancelled, "table {} is closing", name_));
    if (writer_ != nullptr) return WriterFuture::Ready(writer_);
    if (writer_opening_.valid()) return writer_opening_;
    writer_opening_ = promise.future();
  }
  // On its way while the claim is made; appends wait for both.
  (void)Mark();
  memwal::ShardOptions shard;
  shard.store = &store_;
  shard.env = &env_;
  shard.table = path_;
  shard.shard = shard_;
  shard.storage_schema = storage_schema_;
  shard.file_version = std::max(base_file_version_, lance::kFileV21);
  shard.memtable_bytes = options_->memtable_bytes;
  shard.memtable_rows = options_->memtable_rows;
  shard.flush_fail_deadline = options_->flush_fail_deadline;
  const ClaimLedger::Entry known = claims_->Recall(path_);
  shard.continue_epoch = known.closed_cleanly;
  auto writer = known.fenced.ok() ? memwal::ShardWriter::Open(std::move(shard))
                                  : Result<std::shared_ptr<memwal::ShardWriter>>(known.fenced);
  // Whoever lost the claim does not try again: the two would fence each other in turns.
  if (Is(writer.status(), ErrorKind::kFenced)) claims_->Fenced(path_, writer.status());
  if (writer.ok()) claims_->Forget(path_);
  if (!writer.ok()) writer = Annotate(writer.status(), "table " + name_);
  {
    const std::scoped_lock lock(mutex_);
    if (writer.ok()) writer_ = *writer;
    writer_opening_ = {};
  }
  Recharge();
  promise.Set(writer);
  return promise.future();
}

env::Future<AppendReceipt> EngineTable::Append(
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches, env::Reservation charge) {
  std::shared_ptr<memwal::ShardWriter> writer;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) {
      return env::Future<AppendReceipt>::Ready(
          Error(ErrorKind::kCancelled, "table {} is closing", name_));
    }
    if (marked_) writer = writer_;
  }
  if (writer != nullptr) {
    // An upper bound that forces the slow path only when unknown values come to a table with more
    // rows than the limit.
    const auto verdict = dictionary_limit_->Admit(batches, kMaxDictionaryValues);
    if (!verdict.ok()) return env::Future<AppendReceipt>::Ready(verdict.status());
    if (*verdict == DictionaryLimit::Verdict::kAdmitted)
      return AppendWith(writer, batches, std::move(charge));
  }
  auto append = std::make_shared<PendingAppend>();
  append->batches = std::move(batches);
  append->charge = std::move(charge);
  env::Future<AppendReceipt> future = append->promise.future();
  env_.storage->Post([self = shared_from_this(), append] { self->AppendSlow(append); });
  return future;
}

void EngineTable::AppendSlow(std::shared_ptr<PendingAppend> append) {
  EnsureWriter().Then(*env_.storage, [self = shared_from_this(), append](const auto& writer) {
    if (!writer.ok()) return append->promise.Set(writer.status());
    const Status admitted = self->AdmitSlow(append->batches);
    if (!admitted.ok()) return append->promise.Set(admitted);
    self->Mark().Then(*self->env_.storage, [self, append, writer = *writer](const auto& marked) {
      if (!marked.ok()) return append->promise.Set(marked.status());
      self->AppendWith(writer, append->batches, std::move(append->charge))
          .Then(*self->env_.storage,
                [append](const Result<AppendReceipt>& receipt) { append->promise.Set(receipt); });
    });
  });
}

Status EngineTable::AdmitSlow(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  ARROW_ASSIGN_OR_RAISE(const auto verdict, dictionary_limit_->Admit(batches, StoredRowsAtMost()));
  if (verdict == DictionaryLimit::Verdict::kAdmitted) return Status::OK();
  ARROW_RETURN_NOT_OK(LoadStoredDictionaries());
  return dictionary_limit_->Admit(batches, 0).status();
}

env::Future<AppendReceipt> EngineTable::AppendWith(
    const std::shared_ptr<memwal::ShardWriter>& writer,
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches, env::Reservation charge) {
  std::vector<std::shared_ptr<arrow::RecordBatch>> stored;
  stored.reserve(batches.size());
  for (const auto& batch : batches) {
    auto with_tombstones = memwal::WithLiveTombstones(batch, storage_schema_);
    if (!with_tombstones.ok()) return env::Future<AppendReceipt>::Ready(with_tombstones.status());
    stored.push_back(*std::move(with_tombstones));
  }
  auto promise = std::make_shared<env::Promise<AppendReceipt>>();
  env::Future<AppendReceipt> future = promise->future();
  writer->Append(std::move(stored), std::move(charge))
      .Then(*env_.storage, [promise, version = version(),
                            shard = shard_](const Result<memwal::AppendResult>& result) {
        if (!result.ok()) return promise->Set(result.status());
        promise->Set(AppendReceipt{version, shard, result->position});
      });
  return future;
}

uint64_t EngineTable::StoredRowsAtMost() const {
  std::shared_ptr<memwal::ShardWriter> writer;
  uint64_t rows = 0;
  {
    const std::scoped_lock lock(mutex_);
    writer = writer_;
    for (const auto& fragment : base_->manifest().fragments()) rows += fragment.physical_rows();
    // Foreign shards are not counted here; any of them makes the stored values decide.
    if (!foreign_.empty()) return UINT64_MAX / 2;
  }
  if (writer == nullptr) return UINT64_MAX / 2;
  const memwal::ShardView view = writer->View();
  for (const auto& generation : view.generations) {
    if (!generation.has_physical_rows()) return UINT64_MAX / 2;
    rows += generation.physical_rows();
  }
  for (const auto& memtable : view.memtables) rows += memtable.rows();
  return rows;
}

Status EngineTable::LoadStoredDictionaries() {
  ReadOptions options;
  options.columns = dictionary_limit_->columns();
  options.batch_rows = 16 << 10;
  // Not Scan: a pin must not hide values.
  ARROW_ASSIGN_OR_RAISE(auto snapshot, NewestSnapshot());
  ARROW_ASSIGN_OR_RAISE(auto stream, MergeScan(std::move(snapshot), user_schema_, options));
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) break;
    dictionary_limit_->AddStored(*batch);
  }
  dictionary_limit_->StoredComplete();
  return Status::OK();
}

std::shared_ptr<memwal::ShardWriter> EngineTable::writer() const {
  const std::scoped_lock lock(mutex_);
  return writer_;
}

env::Future<FlushReport> EngineTable::Flush() {
  const auto writer = this->writer();
  if (writer == nullptr) return env::Future<FlushReport>::Ready(FlushReport{});
  const memwal::SealFence fence = writer->Seal();
  auto promise = std::make_shared<env::Promise<FlushReport>>();
  env::Future<FlushReport> future = promise->future();
  fence.Wait(*env_.storage)
      .WithDeadline(*env_.storage, options_->flush_wait, "the flush of table " + name_)
      .Then(*env_.storage, [promise, weak = std::weak_ptr(writer),
                            sealed = fence.sealed_generation()](
                               const Result<memwal::FlushOutcome>& outcome) {
        if (!outcome.ok()) {
          // Weak: the writer's own promises hold this callback.
          const auto alive = weak.lock();
          const Status trouble = alive == nullptr ? Status::OK() : alive->Health().flush_trouble;
          const bool late = Is(outcome.status(), ErrorKind::kDeadline) && !trouble.ok();
          return promise->Set(late ? Error(ErrorKind::kDeadline, "{}; it is being retried: {}",
                                           outcome.status().message(), trouble.message())
                                   : outcome.status());
        }
        promise->Set(FlushReport{sealed, outcome->rows});
      });
  return future;
}

std::optional<env::MonotonicTime> EngineTable::oldest_unflushed() const {
  const auto writer = this->writer();
  return writer == nullptr ? std::nullopt : writer->oldest_unflushed();
}

std::optional<memwal::ShardHealth> EngineTable::Health() const {
  const auto writer = this->writer();
  if (writer == nullptr) return std::nullopt;
  return writer->Health();
}

void EngineTable::SealForAge() {
  // Nobody waits here: what becomes of the flush shows in the writer's state, in fences and in
  // health.
  if (const auto writer = this->writer(); writer != nullptr) (void)writer->Seal();
}

bool EngineTable::NeedsDrain() const {
  const auto writer = this->writer();
  if (writer == nullptr || writer->state() != memwal::WriterState::kActive) return false;
  return writer->oldest_unflushed().has_value();
}

env::Future<env::Unit> EngineTable::Drain(env::Duration deadline) {
  const auto writer = this->writer();
  if (writer == nullptr) return env::Future<env::Unit>::Ready(env::Unit{});
  auto promise = std::make_shared<env::Promise<env::Unit>>();
  auto future = promise->future();
  writer->Seal()
      .Wait(*env_.storage)
      .WithDeadline(*env_.storage, deadline, "the flush of table " + name_)
      .Then(*env_.storage, [promise, weak = std::weak_ptr(writer)](const auto& outcome) {
        if (outcome.ok()) return promise->Set(env::Unit{});
        const auto alive = weak.lock();
        const Status trouble = alive == nullptr ? Status::OK() : alive->Health().flush_trouble;
        promise->Set(trouble.ok() ? outcome.status() : trouble);
      });
  return future;
}

env::Future<env::Unit> EngineTable::CloseForEviction(env::Duration deadline) {
  auto promise = std::make_shared<env::Promise<env::Unit>>();
  auto future = promise->future();
  Close(memwal::CloseMode::kFlush, deadline)
      .Then(*env_.storage, [promise](const Result<memwal::CloseReport>& report) {
        const Status cause = report.ok() ? report->cause : report.status();
        promise->Set(cause.ok() ? Result<env::Unit>(env::Unit{}) : Result<env::Unit>(cause));
      });
  return future;
}

env::Future<memwal::CloseReport> EngineTable::Close(memwal::CloseMode mode,
                                                    env::Duration deadline) {
  std::shared_ptr<memwal::ShardWriter> writer;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    writer = writer_;
  }
  if (writer == nullptr) return env::Future<memwal::CloseReport>::Ready(memwal::CloseReport{});
  return writer->Close(mode, deadline);
}

void EngineTable::RememberClaim() const {
  const auto writer = this->writer();
  if (writer == nullptr) return;
  if (writer->state() == memwal::WriterState::kFenced)
    return claims_->Fenced(path_, writer->status());
  if (writer->state() == memwal::WriterState::kClosed)
    return claims_->ClosedCleanly(path_, writer->epoch());
  claims_->Forget(path_);
}

Result<std::vector<ShardId>> EngineTable::ListShards() {
  const std::string prefix = memwal::MemWalPrefix(path_);
  ARROW_ASSIGN_OR_RAISE(const object_store::Listing listing, store_.List(prefix, {}));
  std::vector<ShardId> shards;
  for (const std::string& folder : listing.folders) {
    const auto shard = ShardId::Parse(
        std::string_view(folder).substr(prefix.size(), folder.size() - prefix.size() - 1));
    if (shard.ok()) shards.push_back(*shard);  // anything else in there is not a shard
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

Result<std::vector<pb::mem_wal::SsTable>> EngineTable::ReadForeign(const ShardId& shard) {
  ShardManifestVersion known;
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = foreign_.find(shard); found != foreign_.end())
      known = found->second.known;
  }
  const memwal::ShardManifestStore manifests(store_, path_, shard);
  if (known.value() != 0) {
    ARROW_ASSIGN_OR_RAISE(const bool newer, manifests.Exists(known.Next()));
    if (!newer) {
      const std::scoped_lock lock(mutex_);
      return foreign_[shard].generations;
    }
  }
  ARROW_ASSIGN_OR_RAISE(const auto manifest, manifests.ReadNewest(known));
  ForeignShard read;
  if (manifest) {
    read.known = ShardManifestVersion(manifest->version());
    read.generations.assign(manifest->sstables().begin(), manifest->sstables().end());
    std::sort(read.generations.begin(), read.generations.end(),
              [](const auto& a, const auto& b) { return a.generation() < b.generation(); });
  }
  const std::scoped_lock lock(mutex_);
  foreign_[shard] = read;
  return read.generations;
}

Result<std::vector<EngineTable::Tier>> EngineTable::ReadTiers(OwnShard own) {
  const auto writer = this->writer();
  ARROW_ASSIGN_OR_RAISE(const std::vector<ShardId> shards, ListShards());
  std::vector<Tier> tiers;
  bool own_listed = false;
  for (const ShardId& shard : shards) {
    Tier tier;
    tier.shard = shard;
    bool from_disk = true;
    if (shard == shard_ && writer != nullptr) {
      own_listed = true;
      memwal::ShardView view = writer->View();
      if (view.owned && own == OwnShard::kFromWriter) {
        tier.generations = std::move(view.generations);
        tier.memtables = std::move(view.memtables);
        from_disk = false;
      }
    }
    if (from_disk) {
      ARROW_ASSIGN_OR_RAISE(tier.generations, ReadForeign(shard));
    }
    tiers.push_back(std::move(tier));
  }
  if (writer != nullptr && !own_listed) {
    return Error(ErrorKind::kNotFound,
                 "table {}: the shard's folder is gone; the table was deleted", name_);
  }
  return tiers;
}

Result<std::shared_ptr<GenerationReader>> EngineTable::OpenGeneration(
    const ShardId& shard, const pb::mem_wal::SsTable& generation) {
  const std::string folder = memwal::ShardPrefix(path_, shard) + generation.path();
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = generations_.find(folder); found != generations_.end())
      return found->second.reader;
  }
  ARROW_ASSIGN_OR_RAISE(auto reader, GenerationReader::Open({&store_, &env_}, folder, key_column_));
  CachedGeneration opened{reader, kReaderBytes + MemoryOf(reader->table())};
  const std::scoped_lock lock(mutex_);
  return generations_.try_emplace(folder, std::move(opened)).first->second.reader;
}

Result<std::shared_ptr<const GenerationKeyMap>> EngineTable::KeyMapFor(
    const std::vector<Source>& sources, std::string identity) {
  {
    const std::scoped_lock lock(mutex_);
    if (key_map_ != nullptr && key_map_identity_ == identity) return key_map_;
  }
  ARROW_ASSIGN_OR_RAISE(auto map, GenerationKeyMap::Build(sources));
  int64_t bytes = static_cast<int64_t>(map->size()) * kKeyMapEntryBytes;
  for (const Source& source : sources) {
    if (source.generation == nullptr) continue;
    // Read by Build, and kept since.
    ARROW_ASSIGN_OR_RAISE(const auto keys, source.generation->Keys());
    bytes += MemoryOf(*keys);
  }
  const std::scoped_lock lock(mutex_);
  key_map_bytes_ = bytes;
  key_map_ = map;
  key_map_identity_ = std::move(identity);
  return map;
}

// True if a higher epoch owns our shard, whether or not the writer knows.
Result<bool> EngineTable::WasPassed() {
  const auto writer = this->writer();
  if (writer == nullptr) return false;
  const memwal::ShardManifestStore manifests(store_, path_, shard_);
  ARROW_ASSIGN_OR_RAISE(const auto manifest, manifests.ReadNewest());
  return manifest && Epoch(manifest->writer_epoch()) > writer->epoch();
}

Result<std::shared_ptr<const Snapshot>> EngineTable::TrySnapshot(OwnShard own) {
  // The shards first, then the base: a merge commits the base before it drains the shard, so what
  // the shards do not show any more is in the base that is read after them.
  ARROW_ASSIGN_OR_RAISE(std::vector<Tier> tiers, ReadTiers(own));
  std::shared_ptr<lance::Table> base;
  {
    const std::scoped_lock lock(mutex_);
    base = base_;
  }
  ARROW_ASSIGN_OR_RAISE(base, NewestVersion(base));
  ARROW_ASSIGN_OR_RAISE(const auto merged, memwal::MergedGenerations(*base));

  auto snapshot = std::make_shared<Snapshot>();
  snapshot->key_column = key_column_;
  snapshot->sources.push_back({base, nullptr, std::nullopt});
  std::string identity;
  std::set<std::string> in_use;
  for (Tier& tier : tiers) {
    const auto watermark = merged.find(tier.shard);
    for (const auto& generation : tier.generations) {
      if (watermark != merged.end() && Generation(generation.generation()) <= watermark->second)
        continue;
      ARROW_ASSIGN_OR_RAISE(auto reader, OpenGeneration(tier.shard, generation));
      const std::string folder = memwal::ShardPrefix(path_, tier.shard) + generation.path();
      // The position of a source is part of what the key map holds.
      identity += fmt::format("{}@{};", folder, snapshot->sources.size());
      in_use.insert(folder);
      snapshot->sources.push_back({nullptr, std::move(reader), std::nullopt});
    }
    for (auto& memtable : tier.memtables) {
      if (watermark == merged.end() || memtable.generation() > watermark->second) {
        snapshot->sources.push_back({nullptr, nullptr, std::move(memtable)});
        continue;
      }
      // Merged since the writer was looked at, so the base has all of it; unless a new owner gave
      // the number to a generation of its own, with rows that our later memtables would hide.
      ARROW_ASSIGN_OR_RAISE(const bool passed, WasPassed());
      if (passed) return TrySnapshot(OwnShard::kFromDisk);
    }
  }
  ARROW_ASSIGN_OR_RAISE(snapshot->generation_keys,
                        KeyMapFor(snapshot->sources, std::move(identity)));
  {
    const std::scoped_lock lock(mutex_);
    if (base_->version() < base->version()) {
      base_ = base;
      base_bytes_ = MemoryOf(*base);
    }
    if (generations_.size() > in_use.size() + kSpareGenerations)
      std::erase_if(generations_, [&](const auto& held) { return !in_use.contains(held.first); });
  }
  Recharge();
  return std::shared_ptr<const Snapshot>(std::move(snapshot));
}

Result<std::shared_ptr<const Snapshot>> EngineTable::NewestSnapshot() {
  Result<std::shared_ptr<const Snapshot>> snapshot = TrySnapshot(OwnShard::kFromWriter);
  for (int tries = 1; tries < kSnapshotTries && Is(snapshot.status(), ErrorKind::kNotFound);
       ++tries) {
    snapshot = TrySnapshot(OwnShard::kFromWriter);
  }
  return NotMerelyMissing(std::move(snapshot));
}

// A file that the manifests name and that is not there is damage, unless the whole table is gone.
template <typename T>
Result<T> EngineTable::NotMerelyMissing(Result<T> result) {
  if (!Is(result.status(), ErrorKind::kNotFound)) return result;
  const auto listing = store_.List(path_ + "/_versions/", {.limit = 1});
  if (!listing.ok() || listing->objects.empty()) return result;
  return WithKind(result.status(), ErrorKind::kCorrupt);
}

Result<std::shared_ptr<const Snapshot>> EngineTable::TakeSnapshot() {
  std::shared_ptr<lance::Table> pinned;
  {
    const std::scoped_lock lock(mutex_);
    if (env_.clock->Now() >= pinned_until_) pinned_ = nullptr;
    pinned = pinned_;
  }
  if (pinned == nullptr) return NewestSnapshot();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->key_column = key_column_;
  snapshot->sources.push_back({std::move(pinned), nullptr, std::nullopt});
  ARROW_ASSIGN_OR_RAISE(snapshot->generation_keys, GenerationKeyMap::Build(snapshot->sources));
  return std::shared_ptr<const Snapshot>(std::move(snapshot));
}

Result<TableVersion> EngineTable::Checkout(std::optional<TableVersion> version) {
  std::shared_ptr<lance::Table> pinned;
  if (version) {
    ARROW_ASSIGN_OR_RAISE(pinned, lance::Table::Open({&store_, &env_}, path_, *version));
  }
  TableVersion shown;
  {
    const std::scoped_lock lock(mutex_);
    pinned_ = std::move(pinned);
    pinned_bytes_ = pinned_ == nullptr ? 0 : MemoryOf(*pinned_);
    pinned_until_ = env_.clock->Now() + kPinLimit;
    shown = pinned_ == nullptr ? base_->version() : pinned_->version();
  }
  Recharge();
  return shown;
}

Result<std::unique_ptr<lance::BatchStream>> EngineTable::Scan(const ReadOptions& options) {
  ARROW_ASSIGN_OR_RAISE(auto snapshot, TakeSnapshot());
  ARROW_ASSIGN_OR_RAISE(auto stream,
                        NotMerelyMissing(MergeScan(std::move(snapshot), user_schema_, options)));
  return std::make_unique<CheckedStream>(shared_from_this(), std::move(stream));
}

Result<std::shared_ptr<arrow::RecordBatch>> EngineTable::Get(
    std::string_view key, const std::optional<std::vector<std::string>>& columns) {
  ARROW_ASSIGN_OR_RAISE(const auto snapshot, TakeSnapshot());
  return NotMerelyMissing(
      PointRead(*snapshot, user_schema_, key, columns.value_or(user_schema_->field_names())));
}

}  // namespace sarissa::engine
