#include "engine/dirty_set.h"

#include <algorithm>
#include <charconv>

#include "base/uuid.h"

namespace sarissa::engine {
namespace {

constexpr int kNumberDigits = 20;
// Numbers that others may have taken since we looked, and puts whose outcome is unknown.
constexpr int kPutTries = 64;
// Dead records that may pile up before a snapshot replaces them.
constexpr uint64_t kDeadRecords = 1024;

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text.size() != kNumberDigits || number == 0) return std::nullopt;
  return number;
}

}  // namespace

std::string DirtySet::NumberName(uint64_t number) {
  return fmt::format("{:0{}}", number, kNumberDigits);
}

// Instance ids may hold anything: the folder is named as the shard is.
DirtySet::DirtySet(DirtySetOptions options)
    : options_(std::move(options)),
      prefix_("_sarissa/" + Uuid::FromName(options_.instance_id).ToString() + "/dirty/") {}

Result<std::shared_ptr<DirtySet>> DirtySet::Open(DirtySetOptions options) {
  std::shared_ptr<DirtySet> set(new DirtySet(std::move(options)));
  ARROW_RETURN_NOT_OK(set->ReadFrom(1));
  return set;
}

// Reads the objects from `number` on. Not while a write of this set runs.
Status DirtySet::ReadFrom(uint64_t number) {
  ARROW_ASSIGN_OR_RAISE(const auto listing, options_.store->List(prefix_, {}));
  bool complete = complete_;
  bool any = false;
  bool marks_missing = false;
  for (const auto& object : listing.objects) {
    const auto found = ParseNumber(std::string_view(object.name).substr(prefix_.size()));
    if (!found || *found < number) continue;
    const auto bytes = options_.store->Get(object.name);
    if (Is(bytes.status(), ErrorKind::kNotFound)) continue;  // another's snapshot covers it
    ARROW_RETURN_NOT_OK(bytes.status());
    const auto group = DecodeDirtyGroup({(*bytes)->data(), static_cast<size_t>((*bytes)->size())});
    const std::scoped_lock lock(mutex_);
    if (!any && number == 1) oldest_ = *found;
    any = true;
    next_ = *found + 1;
    if (!group) {
      ++damaged_;
      marks_missing = true;
      continue;
    }
    Apply(*group);
    complete = group->complete;
    // Written after somebody looked at all tables: what was lost before it does not matter.
    if (group->snapshot && group->complete) marks_missing = false;
  }
  const std::scoped_lock lock(mutex_);
  complete_ = complete && !marks_missing;
  return Status::OK();
}

void DirtySet::Apply(const DirtyGroup& group) {
  if (group.snapshot) {
    // What is on its way from here is not in somebody else's snapshot.
    std::erase_if(tables_, [](const auto& entry) { return !entry.second.pending.valid(); });
    records_on_disk_ = 0;
  }
  records_on_disk_ += group.records.size();
  for (const DirtyGroup::Record& record : group.records) {
    const auto found = tables_.find(record.table.name);
    if (found != tables_.end() && found->second.pending.valid()) continue;
    if (record.mark) {
      tables_[record.table.name].created_at_ms = record.table.created_at_ms;
    } else if (found != tables_.end() &&
               found->second.created_at_ms == record.table.created_at_ms) {
      tables_.erase(found);
    }
  }
}

bool DirtySet::complete() const {
  const std::scoped_lock lock(mutex_);
  return complete_;
}

void DirtySet::SetComplete() {
  const std::scoped_lock lock(mutex_);
  if (complete_) return;
  complete_ = true;
  header_changed_ = true;
  snapshot_next_ = damaged_ > 0;
  if (!closed_) StartWrite();
}

env::Future<env::Unit> DirtySet::Mark(const DirtyTable& table) {
  using UnitFuture = env::Future<env::Unit>;
  const std::scoped_lock lock(mutex_);
  if (closed_) return UnitFuture::Ready(Error(ErrorKind::kCancelled, "the server is closing"));
  const auto found = tables_.find(table.name);
  if (found != tables_.end() && found->second.created_at_ms == table.created_at_ms) {
    return found->second.pending.valid() ? found->second.pending : UnitFuture::Ready(env::Unit{});
  }
  auto promise = std::make_shared<env::Promise<env::Unit>>();
  const uint64_t number = next_mark_++;
  tables_[table.name] = {table.created_at_ms, promise->future(), number};
  queued_.push_back({true, table});
  queued_marks_.push_back({table.name, number, promise});
  auto future = promise->future();
  StartWrite();
  return future;
}

void DirtySet::Unmark(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const auto found = tables_.find(name);
  if (found == tables_.end()) return;
  queued_.push_back({false, {name, found->second.created_at_ms}});
  tables_.erase(found);
  if (!closed_) StartUnmarkTimer();
}

void DirtySet::StartUnmarkTimer() {
  if (unmark_timer_ != 0 || writing_) return;
  unmark_timer_ = options_.env->storage->PostAfter(kUnmarkDelay, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const std::scoped_lock lock(self->mutex_);
    self->unmark_timer_ = 0;
    const bool wanted = !self->queued_.empty() || self->header_changed_;
    if (wanted && !self->closed_) self->StartWrite();
  });
}

std::optional<DirtyTable> DirtySet::Find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = tables_.find(name);
  if (found == tables_.end()) return std::nullopt;
  return DirtyTable{name, found->second.created_at_ms};
}

uint64_t DirtySet::size() const {
  const std::scoped_lock lock(mutex_);
  return tables_.size();
}

std::vector<DirtyTable> DirtySet::All() const {
  const std::scoped_lock lock(mutex_);
  std::vector<DirtyTable> all;
  all.reserve(tables_.size());
  for (const auto& [name, entry] : tables_) all.push_back({name, entry.created_at_ms});
  return all;
}

void DirtySet::StartWrite() {
  if (writing_) return;
  writing_ = true;
  // When the executor has stopped, nothing more is written, and waiting marks end with the set.
  if (!options_.env->storage->Post([self = shared_from_this()] { self->RunWrite(); })) {
    writing_ = false;
    queued_marks_.clear();
  }
}

DirtySet::Write DirtySet::TakeWrite() {
  Write write;
  write.group.complete = complete_;
  write.marks.swap(queued_marks_);
  write.group.records.swap(queued_);
  header_changed_ = false;
  const uint64_t after = records_on_disk_ + write.group.records.size();
  if (after > 2 * tables_.size() + kDeadRecords || closed_ || snapshot_next_) {
    write.group.snapshot = true;
    snapshot_next_ = false;
    write.group.records.clear();
    for (const auto& [name, entry] : tables_)
      write.group.records.push_back({true, {name, entry.created_at_ms}});
  }
  return write;
}

void DirtySet::RunWrite() {
  Write write;
  {
    const std::scoped_lock lock(mutex_);
    write = TakeWrite();
  }
  const Status status = PutGroup(write);
  FinishWrite(std::move(write), status);
}

// At the first free number. A group is put again after an unknown outcome: reading it twice does no
// harm, and what can be read need not be durable.
Status DirtySet::PutGroup(Write& write) {
  Status last;
  for (int tries = 0; tries < kPutTries; ++tries) {
    uint64_t number = 0;
    {
      const std::scoped_lock lock(mutex_);
      number = next_++;
    }
    const std::string bytes = EncodeDirtyGroup(write.group);
    last = options_.store->Put(NameOf(number),
                               {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                               object_store::PutMode::kIfAbsent);
    if (last.ok()) {
      if (write.group.snapshot) DeleteOlder(number);
      return last;
    }
    if (Is(last, ErrorKind::kOutcomeUnknown)) continue;
    if (!Is(last, ErrorKind::kAlreadyExists)) return last;
    // Another process of this instance: its marks are ours, too.
    ARROW_RETURN_NOT_OK(ReadFrom(number));
    const std::scoped_lock lock(mutex_);
    if (!write.group.snapshot) continue;
    write.group.records.clear();
    for (const auto& [name, entry] : tables_)
      write.group.records.push_back({true, {name, entry.created_at_ms}});
  }
  return last;
}

// Best effort: what stays is read again, below the snapshot.
void DirtySet::DeleteOlder(uint64_t snapshot) {
  uint64_t oldest = 0;
  {
    const std::scoped_lock lock(mutex_);
    oldest = std::exchange(oldest_, snapshot);
    if (damaged_ > 0) return;  // kept for whoever wants to look at what is damaged
  }
  for (uint64_t number = oldest; number < snapshot; ++number)
    (void)options_.store->Delete(NameOf(number));
}

void DirtySet::FinishWrite(Write write, const Status& status) {
  std::optional<env::Promise<env::Unit>> closed;
  {
    const std::scoped_lock lock(mutex_);
    writing_ = false;
    if (status.ok()) {
      if (write.group.snapshot) records_on_disk_ = 0;
      records_on_disk_ += write.group.records.size();
    } else {
      header_changed_ = header_changed_ || complete_;
      snapshot_next_ = snapshot_next_ || damaged_ > 0;
      // Unmarks are not lost, and stay before what came after them.
      std::erase_if(write.group.records, [](const auto& record) { return record.mark; });
      queued_.insert(queued_.begin(), write.group.records.begin(), write.group.records.end());
    }
    for (const PendingMark& mark : write.marks) {
      const auto found = tables_.find(mark.name);
      if (found == tables_.end() || found->second.number != mark.number) continue;
      if (status.ok()) {
        found->second.pending = {};
      } else {
        tables_.erase(found);
      }
    }
    if (closed_) {
      const bool more =
          status.ok() && (!queued_marks_.empty() || !queued_.empty() || header_changed_);
      if (more) {
        StartWrite();
      } else if (close_promise_) {
        closed = std::move(close_promise_);
        close_promise_.reset();
      }
    } else if (!queued_marks_.empty() || (status.ok() && header_changed_)) {
      StartWrite();
    } else if (!queued_.empty() || header_changed_) {
      StartUnmarkTimer();
    }
  }
  for (const PendingMark& mark : write.marks)
    mark.promise->Set(status.ok() ? Result<env::Unit>(env::Unit{}) : Result<env::Unit>(status));
  if (closed) closed->Set(status.ok() ? Result<env::Unit>(env::Unit{}) : Result<env::Unit>(status));
}

env::Future<env::Unit> DirtySet::Close() {
  env::TimerId timer = 0;
  env::Future<env::Unit> future;
  {
    const std::scoped_lock lock(mutex_);
    if (close_future_.valid()) return close_future_;
    closed_ = true;
    timer = std::exchange(unmark_timer_, 0);
    const bool clean = queued_.empty() && queued_marks_.empty() && !header_changed_ && !writing_;
    if (clean) {
      close_future_ = env::Future<env::Unit>::Ready(env::Unit{});
    } else {
      close_promise_.emplace();
      close_future_ = close_promise_->future();
      StartWrite();
    }
    future = close_future_;
  }
  if (timer != 0) options_.env->storage->CancelTimer(timer);
  return future;
}

}  // namespace sarissa::engine
