#include "engine/reconciliation.h"

#include <algorithm>

#include "base/uuid.h"
#include "engine/log_tip.h"

namespace sarissa::engine {
namespace {

constexpr std::string_view kPlaceHeader = "sarissa reconciliation 1\n";

}  // namespace

Reconciliation::Reconciliation(ReconciliationOptions options)
    : options_(std::move(options)),
      shard_(ShardId::FromName(options_.instance_id)),
      place_name_("_sarissa/" + Uuid::FromName(options_.instance_id).ToString() +
                  "/reconciliation") {}

void Reconciliation::Start() {
  {
    const std::scoped_lock lock(mutex_);
    status_.state = ReconciliationStatus::State::kRunning;
  }
  Next(&Reconciliation::Begin);
}

void Reconciliation::Stop() {
  env::TimerId timer = 0;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    timer = timer_;
  }
  if (timer != 0) options_.env->storage->CancelTimer(timer);
}

ReconciliationStatus Reconciliation::status() const {
  const std::scoped_lock lock(mutex_);
  return status_;
}

void Reconciliation::Count(uint64_t ReconciliationStatus::* what, uint64_t by) {
  const std::scoped_lock lock(mutex_);
  status_.*what += by;
}

// A server that closes drops what is queued.
void Reconciliation::Next(Step step, env::Duration delay) {
  const std::scoped_lock lock(mutex_);
  if (stopped_) return;
  const auto task = [weak = weak_from_this(), step] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    {
      const std::scoped_lock held(self->mutex_);
      if (self->stopped_) return;
    }
    (self.get()->*step)();
  };
  timer_ = options_.env->storage->PostAfter(delay, task);
}

// Begins again later: a walk that missed something must not pass for a whole one.
void Reconciliation::Fail(const Status& status) {
  {
    const std::scoped_lock lock(mutex_);
    status_ = {};
    status_.state = ReconciliationStatus::State::kFailed;
  }
  env::Tell(*options_.env, env::EventLog::Level::kError, "reconciliation_failed",
            {{"kind", std::string(ErrorKindName(KindOf(status)))}, {"error", status.message()}});
  Next(&Reconciliation::Begin, kRetryDelay);
}

void Reconciliation::Tell(env::EventLog::Level level, std::string_view event,
                          const std::string& name, const Status& status, uint64_t told) {
  if (told > kTold) return;
  env::EventLog::Fields fields = {{"store", name}};
  if (!status.ok()) {
    fields.emplace_back("kind", std::string(ErrorKindName(KindOf(status))));
    fields.emplace_back("error", status.message());
  }
  if (told == kTold) fields.emplace_back("more", "are counted and not named");
  env::Tell(*options_.env, level, event, fields);
}

Status Reconciliation::ListNames() {
  names_.clear();
  ARROW_ASSIGN_OR_RAISE(const auto listing, options_.store->List("", {}));
  for (const std::string& folder : listing.folders) {
    const std::string_view path(folder.data(), folder.size() - 1);
    if (path == options_.registry_path || !path.ends_with(options_.table_suffix)) continue;
    names_.emplace_back(path.substr(0, path.size() - options_.table_suffix.size()));
  }
  std::sort(names_.begin(), names_.end());
  return Status::OK();
}

void Reconciliation::Begin() {
  {
    const std::scoped_lock lock(mutex_);
    status_ = {};
    status_.state = ReconciliationStatus::State::kRunning;
  }
  next_ = 0;
  noted_ = 0;
  marks_.clear();
  suspects_.clear();
  look_at_tips_ = !options_.dirty->complete();
  const Status listed = ListNames();
  if (!listed.ok()) return Fail(listed);
  if (look_at_tips_) ReadPlace();
  env::Tell(*options_.env, env::EventLog::Level::kInfo, "reconciliation_started",
            {{"folders", std::to_string(names_.size())},
             {"rows", std::to_string(options_.registry->size())},
             {"log_tips", look_at_tips_ ? (place_.empty() ? "all" : "after " + place_) : "none"}});
  Walk();
}

void Reconciliation::Walk() {
  uint64_t tips = 0;
  const size_t end = std::min(next_ + options_.slice, names_.size());
  for (; next_ < end; ++next_) {
    bool looked_at_tip = false;
    Look(names_[next_], &looked_at_tip);
    tips += looked_at_tip ? 1 : 0;
    if (++names_since_progress_ < kProgressEvery) continue;
    names_since_progress_ = 0;
    env::Tell(*options_.env, env::EventLog::Level::kInfo, "reconciliation_progress",
              {{"examined", std::to_string(next_ + 1)}, {"of", std::to_string(names_.size())}});
  }
  if (look_at_tips_) WritePlace();
  if (next_ == names_.size()) return FinishWalk();
  const uint64_t rate = std::max<uint64_t>(1, options_.tables_per_second);
  Next(&Reconciliation::Walk, std::chrono::nanoseconds(1'000'000'000 / rate * tips));
}

void Reconciliation::Look(const std::string& name, bool* looked_at_tip) {
  Count(&ReconciliationStatus::examined);
  const auto registered = options_.registry->FindInMemory(name, env::Duration::max());
  if (!registered) {
    suspects_.push_back(name);
    return;
  }
  if (!look_at_tips_ || name <= place_) return;
  *looked_at_tip = true;
  if (auto mark = MarkIfUnflushed(*registered)) marks_.push_back({next_, *std::move(mark)});
}

// The mark on its way, if the table needs one. On any thread.
std::optional<env::Future<env::Unit>> Reconciliation::MarkIfUnflushed(const TableInfo& info) {
  if (options_.dirty->Find(info.name)) return std::nullopt;
  const auto unflushed = LogHasUnflushedRows(*options_.store, PathOf(info.name), shard_);
  if (!unflushed.ok()) {
    Count(&ReconciliationStatus::unreadable);
    Tell(env::EventLog::Level::kError, "store_unreadable", info.name, unflushed.status(),
         status().unreadable);
    // Damage does not heal by being opened again and again.
    if (Is(unflushed.status(), ErrorKind::kCorrupt)) return std::nullopt;
  }
  if (unflushed.ok() && !*unflushed) return std::nullopt;
  Count(&ReconciliationStatus::dirty);
  return options_.dirty->Mark({info.name, info.created_at_ms});
}

// The set is complete only when every mark of the walk is durable.
void Reconciliation::FinishWalk() {
  const bool on_their_way = std::any_of(marks_.begin(), marks_.end(),
                                        [](const auto& made) { return !made.mark.IsReady(); });
  if (on_their_way) return Next(&Reconciliation::FinishWalk, std::chrono::milliseconds(50));
  for (const auto& made : marks_)
    if (!made.mark.Get().ok()) return Fail(made.mark.Get().status());
  if (look_at_tips_) {
    options_.dirty->SetComplete();
    place_.clear();
    // Should it stay, the next walk of all tips takes longer for nothing, no more.
    (void)options_.store->Delete(place_name_);
  }
  const Status rows = CheckRows();
  if (!rows.ok()) return Fail(rows);
  names_.clear();
  names_.shrink_to_fit();
  if (suspects_.empty()) return Finish();
  Next(&Reconciliation::LookAgain, options_.settle);
}

// Rows whose folder was not in the listing.
Status Reconciliation::CheckRows() {
  ListRequest request;
  request.limit = 1000;
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const TablePage page, options_.registry->Page(request));
    for (const TableInfo& info : page.tables) {
      if (std::binary_search(names_.begin(), names_.end(), info.name)) continue;
      Count(&ReconciliationStatus::examined);
      suspects_.push_back(info.name);
    }
    if (!page.more || page.tables.empty()) return Status::OK();
    request.start_after = page.tables.back().name;
  }
}

void Reconciliation::LookAgain() {
  const size_t count = std::min(options_.slice, suspects_.size());
  for (size_t i = 0; i < count; ++i) {
    LookAgainAt(suspects_.back());
    suspects_.pop_back();
  }
  if (suspects_.empty()) return Finish();
  Next(&Reconciliation::LookAgain);
}

void Reconciliation::LookAgainAt(const std::string& name) {
  const std::string path = PathOf(name);
  const auto registered = options_.registry->Find(name);
  const auto versions = options_.store->List(path + "/_versions/", {.limit = 1});
  const Status looked = !registered.ok() ? registered.status() : versions.status();
  if (!looked.ok()) {
    Count(&ReconciliationStatus::unreadable);
    return Tell(env::EventLog::Level::kError, "store_unreadable", name, looked,
                status().unreadable);
  }
  const bool on_disk = !versions->objects.empty();
  if (*registered) {
    if (on_disk) return;
    Count(&ReconciliationStatus::without_files);
    return Tell(env::EventLog::Level::kError, "store_without_files", name, Status::OK(),
                status().without_files);
  }
  if (!on_disk) {
    const Status removed = RemoveHalfMade(path);
    if (removed.ok()) return;
    Count(&ReconciliationStatus::unreadable);
    return Tell(env::EventLog::Level::kError, "store_unreadable", name, removed,
                status().unreadable);
  }
  Count(&ReconciliationStatus::registered);
  Tell(env::EventLog::Level::kInfo, "store_registered", name, Status::OK(), status().registered);
  const TableInfo row = options_.new_row(name);
  options_.registry->Add(row).Then(
      *options_.env->storage, [weak = weak_from_this(), row](const auto& added) {
        const auto self = weak.lock();
        if (self == nullptr || Is(added.status(), ErrorKind::kAlreadyExists)) return;
        if (!added.ok()) {
          self->Count(&ReconciliationStatus::unreadable);
          return self->Tell(env::EventLog::Level::kError, "store_not_registered", row.name,
                            added.status(), 1);
        }
        // A mark that does not get through leaves the table to its first touch.
        (void)self->MarkIfUnflushed(row);
      });
}

// What a create leaves that stopped before the first version; anything more is somebody's data.
Status Reconciliation::RemoveHalfMade(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const auto listing, options_.store->List(path + "/", {.recursive = true}));
  for (const auto& object : listing.objects) {
    if (object.name.starts_with(path + "/_transactions/")) continue;
    return Error(ErrorKind::kCorrupt, "{} is there, and no version of the table", object.name);
  }
  if (listing.objects.empty()) return Status::OK();  // was deleted meanwhile
  Count(&ReconciliationStatus::removed);
  return options_.store->DeletePrefix(path + "/");
}

void Reconciliation::Finish() {
  ReconciliationStatus status;
  {
    const std::scoped_lock lock(mutex_);
    status_.state = ReconciliationStatus::State::kDone;
    status = status_;
  }
  marks_.clear();
  env::Tell(*options_.env, env::EventLog::Level::kInfo, "reconciliation_done",
            {{"examined", std::to_string(status.examined)},
             {"registered", std::to_string(status.registered)},
             {"removed", std::to_string(status.removed)},
             {"without_files", std::to_string(status.without_files)},
             {"unreadable", std::to_string(status.unreadable)},
             {"dirty", std::to_string(status.dirty)}});
}

// --- The place

void Reconciliation::ReadPlace() {
  place_.clear();
  const auto bytes = options_.store->Get(place_name_);
  if (!bytes.ok()) return;  // from the beginning
  const std::string text = (*bytes)->ToString();
  if (text.starts_with(kPlaceHeader)) place_ = text.substr(kPlaceHeader.size());
}

// Up to the first mark that is not durable; what cannot be written costs time after a restart.
void Reconciliation::WritePlace() {
  const auto on_its_way = std::find_if(marks_.begin(), marks_.end(), [](const auto& made) {
    return !made.mark.IsReady() || !made.mark.Get().ok();
  });
  const size_t done = on_its_way == marks_.end() ? next_ : on_its_way->name;
  if (done < noted_ + options_.place_every || names_[done - 1] <= place_) return;
  noted_ = done;
  const std::string text = std::string(kPlaceHeader) + names_[done - 1];
  (void)options_.store->Put(place_name_,
                            {reinterpret_cast<const uint8_t*>(text.data()), text.size()},
                            object_store::PutMode::kOverwrite);
}

}  // namespace sarissa::engine
