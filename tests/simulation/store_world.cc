#include "tests/simulation/store_world.h"

#include <cstdlib>

#include "tests/simulation/maintenance.h"

namespace sarissa::simulation {
namespace {

constexpr uint64_t kKeysPerClient = 4;
// A broken flush gives up after a minute; after that nothing may still be waiting.
constexpr env::Duration kQuiesceLimit = std::chrono::seconds(90);
constexpr int kOpenTries = 12;
// Longer than a read takes that the faults slow down.
constexpr env::Duration kRetention = std::chrono::seconds(20);

bool Traced() {
  static const bool traced = std::getenv("SARISSA_TRACE") != nullptr;
  return traced;
}

}  // namespace

StoreWorld::StoreWorld(uint64_t seed)
    : scheduler_(seed), random_(seed ^ 0x5a5a5a5a), weather_(random_) {
  disk_.RecordOperations(false);
  for (size_t i = 0; i < stores_.size(); ++i) stores_[i].name = fmt::format("exp{}", i);
}

void StoreWorld::Counts::Add(const Counts& other) {
  acknowledged += other.acknowledged;
  live_reads += other.live_reads;
  flushes += other.flushes;
  merges += other.merges;
  clean_ups += other.clean_ups;
  fencers += other.fencers;
  errors += other.errors;
  virtual_seconds += other.virtual_seconds;
}

StoreWorld::Counts StoreWorld::counts() const {
  Counts counts = counts_;
  for (const Store& store : stores_) counts.acknowledged += store.expectations.acknowledged();
  counts.virtual_seconds = Now();
  return counts;
}

double StoreWorld::Now() const {
  return std::chrono::duration<double>(
             const_cast<env::SimScheduler&>(scheduler_).clock().Now().time_since_epoch())
      .count();
}

void StoreWorld::Trace(std::string_view what) const {
  if (!Traced()) return;
  fmt::print(stderr, "{:.6f} {}\n", Now(), what);
}

void StoreWorld::Problem(std::string what) {
  if (problem_.empty()) problem_ = std::move(what);
}

bool StoreWorld::Expected(const Status& status) {
  if (status.ok()) return true;
  ++counts_.errors;
  switch (KindOf(status)) {
    case ErrorKind::kFenced:
    case ErrorKind::kFailedWriter:
    case ErrorKind::kOutcomeUnknown:
    case ErrorKind::kUnavailable:
    case ErrorKind::kNoSpace:
    case ErrorKind::kIo:
    case ErrorKind::kConflict:
      return true;
    default:
      return false;
  }
}

std::string StoreWorld::Run() {
  for (int life = 0; life < kLives && problem_.empty(); ++life) {
    const Status lived = Live(life + 1 == kLives);
    if (!lived.ok()) Problem(lived.ToString());
    if (!problem_.empty()) problem_ = fmt::format("life {}: {}", life, problem_);
  }
  return problem_;
}

StoreProcess::Options StoreWorld::ProcessOptions() {
  constexpr int kIntervals[] = {500, 2'000, 10'000};
  StoreProcess::Options options;
  options.seed = random_.Next();
  options.flush_interval = std::chrono::milliseconds(kIntervals[random_.Below(3)]);
  options.memtable_rows = 12;
  options.max_latency = std::chrono::milliseconds(3);
  options.before = [this](const env::SimOperation& operation) {
    if (Traced()) {
      Trace(fmt::format("  {} '{}' {} bytes", SimOperationName(operation.kind), operation.path,
                        operation.bytes));
    }
    return weather_.OnDisk(operation);
  };
  return options;
}

// One process from its start to its crash. The last one sees no faults, and must end at rest.
Status StoreWorld::Live(bool last) {
  Trace("=== a process starts");
  pending_ = 0;
  weather_.NewProcess();
  clean_up_.clear();
  process_ = std::make_unique<StoreProcess>(scheduler_, disk_, ProcessOptions());
  for (Store& store : stores_) {
    store.fenced = !last && fencer_ != nullptr;
    store.broken = false;
    ARROW_RETURN_NOT_OK(Annotate(process_->Audit(store.name, store.expectations), store.name));
  }
  if (!last && random_.Below(3) == 0) weather_.Change(process_->faults());
  if (last) fencer_.reset();
  const Status opened = OpenAll();
  if (!opened.ok()) {
    if (!weather_.sync_failed() || !Expected(opened)) return opened;
    Crash();
    return Status::OK();
  }
  StartWriters();
  const env::MonotonicTime end =
      scheduler_.clock().Now() +
      env::Duration(random_.Below(static_cast<uint64_t>(kLifeLimit.count())));
  while (scheduler_.clock().Now() < end && problem_.empty()) {
    scheduler_.RunFor(std::chrono::milliseconds(1 + random_.Below(2000)));
    if (!last) weather_.Change(process_->faults());
    ARROW_RETURN_NOT_OK(Happen(last));
  }
  if (last || random_.Below(2) == 0) ARROW_RETURN_NOT_OK(Quiesce(last));
  Crash();
  return Status::OK();
}

void StoreWorld::Crash() {
  constexpr env::SimDisk::CrashMode kModes[] = {env::SimDisk::CrashMode::kDropAllUnsynced,
                                                env::SimDisk::CrashMode::kKeepAll,
                                                env::SimDisk::CrashMode::kRandom};
  const auto mode = kModes[random_.Below(3)];
  Trace(fmt::format("=== crash of kind {}", static_cast<int>(mode)));
  writing_ = false;
  weather_.Clear(process_->faults());
  process_.reset();
  // A kill of one process leaves the other alone; a power loss does not.
  if (mode != env::SimDisk::CrashMode::kKeepAll || random_.Below(2) == 0) fencer_.reset();
  if (fencer_ == nullptr) disk_.Crash(random_, mode);
}

// The open may fail while there are faults, and must not fail without.
Status StoreWorld::OpenAll() {
  for (Store& store : stores_) {
    Status opened;
    for (int tries = 0; tries < kOpenTries; ++tries) {
      const bool faulty = weather_.faulty();
      opened = process_->Open(store.name);
      if (opened.ok()) opened = CheckStart(store);
      if (opened.ok()) break;
      // A fencer that lives on may claim at the same time.
      if (!Expected(opened) || (!faulty && fencer_ == nullptr && !weather_.sync_failed()))
        return Annotate(opened, "open " + store.name);
      if (tries > kOpenTries / 2) {
        weather_.Clear(process_->faults());
        fencer_.reset();
      }
      scheduler_.RunFor(std::chrono::milliseconds(200));
    }
    ARROW_RETURN_NOT_OK(Annotate(opened, "open " + store.name));
  }
  return Status::OK();
}

Status StoreWorld::CheckStart(Store& store) {
  const bool alone = fencer_ == nullptr;
  ARROW_ASSIGN_OR_RAISE(const Shown shown, process_->Read(store.name));
  const std::string problem =
      alone ? store.expectations.Check(shown) : store.expectations.CheckInvention(shown);
  if (!problem.empty()) return Error(ErrorKind::kInternal, "{}: {}", store.name, problem);
  if (alone) store.expectations.Seen(shown);
  return Status::OK();
}

// One thing happens.
Status StoreWorld::Happen(bool last) {
  Store& store = stores_[random_.Below(kStores)];
  const uint64_t dice = random_.Below(100);
  if (dice < 40) {
    StartRead(store);
  } else if (dice < 60) {
    StartFlush(store);
  } else if (dice < 70) {
    return Maintain(store, /*merge=*/true);
  } else if (dice < 76) {
    return Maintain(store, /*merge=*/false);
  } else if (dice < 80 && !last) {
    return StartFencer();
  } else if (dice < 90) {
    return FencerStep();
  } else if (dice < 94) {
    fencer_.reset();
  } else if (dice < 97) {
    weather_.Clear(process_->faults());
  }
  return Status::OK();
}

memwal::testing::KeyedRows StoreWorld::NextRows(std::string_view client) {
  memwal::testing::KeyedRows rows(1 + random_.Below(3));
  for (auto& [key, value] : rows) {
    key = fmt::format("{}-{}", client, random_.Below(kKeysPerClient));
    value = ++last_value_;
  }
  return rows;
}

void StoreWorld::StartWriters() {
  writing_ = true;
  for (int writer = 0; writer < kWriters; ++writer) WriterStep(writer);
}

// A writer's next append; its answer, and a pause, lead to the one after.
void StoreWorld::WriterStep(int writer) {
  if (!writing_) return;
  Store& store = stores_[random_.Below(kStores)];
  const auto rows = NextRows(fmt::format("writer{}", writer));
  const size_t append = store.expectations.Sent(rows);
  ++pending_;
  process_->table(store.name)
      .Append({memwal::testing::UserBatch(rows)}, {})
      .Then(*process_->env().storage,
            [this, writer, &store, append](const Result<engine::AppendReceipt>& receipt) {
              Answered(writer, store, append, receipt);
            });
}

void StoreWorld::Answered(int writer, Store& store, size_t append,
                          const Result<engine::AppendReceipt>& receipt) {
  --pending_;
  if (Traced())
    Trace(fmt::format("writer {} on {}: {}", writer, store.name, receipt.status().ToString()));
  if (receipt.ok()) {
    store.expectations.Acknowledged(append, receipt->position.value());
  } else if (Is(receipt.status(), ErrorKind::kNoSpace)) {
    store.expectations.Refused(append);
  } else {
    if (!Expected(receipt.status())) Problem("append: " + receipt.status().ToString());
    store.broken = true;
  }
  const env::Duration pause = std::chrono::milliseconds(random_.Below(2000));
  process_->env().storage->PostAfter(pause, [this, writer] { WriterStep(writer); });
}

// What was acknowledged before the read starts is in it; nothing is that was not sent by its end.
void StoreWorld::StartRead(Store& store) {
  ++pending_;
  process_->env().storage->Post([this, &store, table = process_->shared_table(store.name)] {
    const Expectations before = store.expectations;
    const auto read = [&]() -> Result<Shown> {
      ARROW_ASSIGN_OR_RAISE(auto stream, table->Scan({}));
      return ReadRows(*stream);
    };
    const auto shown = read();
    --pending_;
    if (!shown.ok()) {
      if (!Expected(shown.status())) Problem("live read: " + shown.status().ToString());
      return;
    }
    std::string problem = store.expectations.CheckInvention(*shown);
    // What a fencer took over is not shown here before it flushes.
    if (problem.empty() && !store.fenced) problem = before.CheckLoss(*shown);
    ++counts_.live_reads;
    if (!problem.empty()) Problem(fmt::format("live read of {}: {}", store.name, problem));
    store.expectations.Seen(*shown);
  });
}

void StoreWorld::StartFlush(Store& store) {
  Trace("flush " + store.name);
  ++pending_;
  process_->table(store.name)
      .Flush()
      .Then(*process_->env().storage, [this, &store](const Result<engine::FlushReport>& report) {
        --pending_;
        if (report.ok()) {
          ++counts_.flushes;
          return;
        }
        if (!Expected(report.status())) Problem("flush: " + report.status().ToString());
        store.broken = true;
      });
}

// A second process with the same instance id.
Status StoreWorld::StartFencer() {
  if (fencer_ != nullptr) return Status::OK();
  fencer_ = std::make_unique<StoreProcess>(scheduler_, disk_, ProcessOptions());
  return FencerStep();
}

Status StoreWorld::FencerStep() {
  if (fencer_ == nullptr) return Status::OK();
  Store& store = stores_[random_.Below(kStores)];
  Trace("fencer on " + store.name);
  // Its sweeper takes over whatever it finds marked as dirty.
  for (Store& each : stores_) each.fenced = true;
  Status status = fencer_->opened(store.name) ? Status::OK() : fencer_->Open(store.name);
  if (status.ok()) {
    const auto rows = NextRows("fencer");
    const size_t append = store.expectations.Sent(rows);
    const auto receipt = fencer_->Append(store.name, rows);
    if (receipt.ok()) store.expectations.Acknowledged(append, receipt->position.value());
    if (Is(receipt.status(), ErrorKind::kNoSpace)) store.expectations.Refused(append);
    status = receipt.status();
  }
  if (status.ok() && random_.Below(2) == 0) status = fencer_->Flush(store.name);
  if (status.ok()) ++counts_.fencers;
  return Expected(status) ? Status::OK() : Annotate(status, "fencer");
}

Status StoreWorld::Maintain(Store& store, bool merge) {
  const Status status =
      merge ? Merge(*process_, store.name) : CleanUp(*process_, store.name, kRetention, clean_up_);
  if (status.ok()) ++(merge ? counts_.merges : counts_.clean_ups);
  return Expected(status) ? Status::OK() : Annotate(status, merge ? "merge" : "clean-up");
}

// The faults end: so do all waits, and everything flushes that is not broken (C12).
Status StoreWorld::Quiesce(bool last) {
  weather_.Clear(process_->faults());
  fencer_.reset();
  writing_ = false;
  scheduler_.RunFor(kQuiesceLimit);
  if (pending_ > 0)
    return Error(ErrorKind::kInternal, "{} answers never came though the faults ended", pending_);
  for (Store& store : stores_) {
    const Status flushed = process_->Flush(store.name);
    const bool may_fail = !last && (store.fenced || store.broken || weather_.sync_failed());
    if (!flushed.ok() && (!may_fail || !Expected(flushed)))
      return Annotate(flushed, "flush at rest of " + store.name);
    ARROW_ASSIGN_OR_RAISE(const Shown shown, process_->Read(store.name));
    const std::string problem =
        store.fenced ? store.expectations.CheckInvention(shown) : store.expectations.Check(shown);
    if (!problem.empty())
      return Error(ErrorKind::kInternal, "read at rest of {}: {}", store.name, problem);
    store.expectations.Seen(shown);
    if (last)
      ARROW_RETURN_NOT_OK(Annotate(process_->Audit(store.name, store.expectations), store.name));
  }
  return Status::OK();
}

}  // namespace sarissa::simulation
