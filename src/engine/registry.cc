#include "engine/registry.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "engine/newest_version.h"
#include "lance/table/manifest.h"

namespace sarissa::engine {
namespace {

// Commits of other processes that one group goes around.
constexpr int kCommitTries = 64;
// Versions stay for 60 s after their successor (registry_upkeep.cc), so for this long after a look
// a missing successor means that there is none.
constexpr env::Duration kTrustNextVersion = std::chrono::seconds(30);

std::shared_ptr<arrow::Schema> RegistrySchema() {
  return arrow::schema({arrow::field("name", arrow::utf8(), false),
                        arrow::field("uri", arrow::utf8(), false),
                        arrow::field("created_at", arrow::int64(), false)});
}

Result<std::shared_ptr<arrow::RecordBatch>> BatchOf(const std::vector<const TableInfo*>& infos) {
  arrow::StringBuilder names;
  arrow::StringBuilder uris;
  arrow::Int64Builder times;
  for (const TableInfo* info : infos) {
    ARROW_RETURN_NOT_OK(names.Append(info->name));
    ARROW_RETURN_NOT_OK(uris.Append(info->uri));
    ARROW_RETURN_NOT_OK(times.Append(info->created_at_ms));
  }
  ARROW_ASSIGN_OR_RAISE(auto name, names.Finish());
  ARROW_ASSIGN_OR_RAISE(auto uri, uris.Finish());
  ARROW_ASSIGN_OR_RAISE(auto time, times.Finish());
  return arrow::RecordBatch::Make(RegistrySchema(), static_cast<int64_t>(infos.size()),
                                  {name, uri, time});
}

}  // namespace

Result<std::shared_ptr<Registry>> Registry::Open(lance::TableContext context,
                                                 const std::string& path, std::string uri_prefix,
                                                 std::string table_suffix) {
  auto table = lance::Table::Open(context, path);
  if (!table.ok() && Is(table.status(), ErrorKind::kNotFound)) {
    ARROW_ASSIGN_OR_RAISE(const auto schema, lance::Schema::FromArrow(*RegistrySchema()));
    table = lance::Table::Create(context, path, schema, {});
    // Another process was faster.
    if (Is(table.status(), ErrorKind::kAlreadyExists)) table = lance::Table::Open(context, path);
  }
  if (!table.ok()) return Annotate(table.status(), path);
  std::shared_ptr<Registry> registry(
      new Registry(context, std::move(uri_prefix), std::move(table_suffix)));
  auto rows = registry->Load(**table);
  if (!rows.ok()) {
    // A manifest that parses and makes no sense.
    const Status& status = rows.status();
    const bool nonsense = Is(status, ErrorKind::kInvalid);
    return Annotate(nonsense ? WithKind(status, ErrorKind::kCorrupt) : status,
                    fmt::format("{} version {}", path, (*table)->version()));
  }
  ARROW_ASSIGN_OR_RAISE(const lance::TableTip tip, lance::FindTip(*context.store, path));
  registry->may_lack_rows_ = tip.taken > tip.newest.version;
  registry->table_ = *std::move(table);
  registry->rows_ = *std::move(rows);
  registry->looked_ = context.env->clock->Now();
  return registry;
}

Status Registry::AddRows(const arrow::RecordBatch& batch, Rows* rows) const {
  const auto& names = static_cast<const arrow::StringArray&>(*batch.column(0));
  const auto& uris = static_cast<const arrow::StringArray&>(*batch.column(1));
  const auto& times = static_cast<const arrow::Int64Array&>(*batch.column(2));
  const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch.column(3));
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    std::string name = names.GetString(row);
    std::string uri = uris.GetString(row);
    if (uri == uri_prefix_ + name + table_suffix_) uri.clear();
    rows->emplace(std::move(name), Row{times.Value(row), addresses.Value(row), std::move(uri)});
  }
  return Status::OK();
}

Result<Registry::Rows> Registry::Load(const lance::Table& table) const {
  lance::ScanOptions options;
  options.columns = RegistrySchema()->field_names();
  options.with_row_address = true;
  options.batch_rows = 16 << 10;
  ARROW_ASSIGN_OR_RAISE(auto stream, table.Scan(options));
  Rows rows;
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) return rows;
    ARROW_RETURN_NOT_OK(AddRows(*batch, &rows));
  }
}

Result<std::optional<Registry::Rows>> Registry::LoadAppended(const lance::Table& known,
                                                             const lance::Table& newest) const {
  const auto& before = known.manifest().fragments();
  const auto& after = newest.manifest().fragments();
  if (after.size() < before.size()) return std::optional<Rows>();
  for (int i = 0; i < before.size(); ++i) {
    const bool same =
        before[i].id() == after[i].id() && before[i].physical_rows() == after[i].physical_rows() &&
        before[i].deletion_file().id() == after[i].deletion_file().id() &&
        before[i].deletion_file().num_deleted_rows() == after[i].deletion_file().num_deleted_rows();
    if (!same) return std::optional<Rows>();
  }
  std::vector<lance::RowAddress> addresses;
  for (int i = before.size(); i < after.size(); ++i) {
    if (after[i].deletion_file().num_deleted_rows() > 0) return std::optional<Rows>();
    for (uint64_t row = 0; row < after[i].physical_rows(); ++row)
      addresses.push_back(after[i].id() << 32 | row);
  }
  Rows rows;
  if (addresses.empty()) return std::optional<Rows>(std::move(rows));
  ARROW_ASSIGN_OR_RAISE(const auto batch, newest.Take(addresses, RegistrySchema()->field_names()));
  arrow::UInt64Builder builder;
  ARROW_RETURN_NOT_OK(builder.AppendValues(addresses));
  ARROW_ASSIGN_OR_RAISE(auto column, builder.Finish());
  ARROW_ASSIGN_OR_RAISE(
      const auto with_addresses,
      batch->AddColumn(batch->num_columns(), arrow::field("_rowaddr", arrow::uint64(), false),
                       std::move(column)));
  ARROW_RETURN_NOT_OK(AddRows(*with_addresses, &rows));
  return std::optional<Rows>(std::move(rows));
}

Status Registry::Refresh() {
  std::shared_ptr<lance::Table> known;
  bool long_ago = false;
  env::MonotonicTime before{};
  {
    const std::scoped_lock lock(mutex_);
    known = table_;
    const env::MonotonicTime now = context_.env->clock->Now();
    long_ago = now - looked_ > kTrustNextVersion;
    // Others who look meanwhile rely on what is there: at most as old as they allow.
    before = std::exchange(looked_, now);
  }
  const Status looked = RefreshFrom(known, long_ago);
  if (looked.ok()) return looked;
  // A look that failed is none.
  const std::scoped_lock lock(mutex_);
  looked_ = std::min(looked_, before);
  return looked;
}

Status Registry::RefreshFrom(const std::shared_ptr<lance::Table>& known, bool long_ago) {
  // The next version may have come and gone since.
  auto look = long_ago ? lance::Table::Open(context_, known->path()) : NewestVersion(known);
  ARROW_ASSIGN_OR_RAISE(auto newest, std::move(look));
  if (newest->version() == known->version()) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto appended, LoadAppended(*known, *newest));
  std::optional<Rows> all;
  if (!appended) {
    ARROW_ASSIGN_OR_RAISE(all, Load(*newest));
  }
  {
    const std::scoped_lock lock(mutex_);
    if (table_ == known) {
      if (appended) rows_.merge(*appended);
      if (all) rows_ = *std::move(all);
      table_ = newest;
      return Status::OK();
    }
    if (table_->version() >= newest->version()) return Status::OK();
  }
  // Somebody else moved on meanwhile, not as far: begin again from there.
  return Refresh();
}

TableInfo Registry::InfoOf(const std::string& name, const Row& row) const {
  return {name, row.uri.empty() ? uri_prefix_ + name + table_suffix_ : row.uri, row.created_at_ms};
}

std::optional<TableInfo> Registry::Look(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = rows_.find(name);
  if (found == rows_.end()) return std::nullopt;
  return InfoOf(name, found->second);
}

Result<std::optional<TableInfo>> Registry::Find(const std::string& name) {
  ARROW_RETURN_NOT_OK(Refresh());
  return Look(name);
}

Result<std::optional<TableInfo>> Registry::FindRecent(const std::string& name,
                                                      env::Duration max_age) {
  bool recent = false;
  {
    const std::scoped_lock lock(mutex_);
    recent = context_.env->clock->Now() - looked_ <= max_age;
  }
  if (!recent) ARROW_RETURN_NOT_OK(Refresh());
  return Look(name);
}

std::optional<TableInfo> Registry::FindInMemory(const std::string& name,
                                                env::Duration max_age) const {
  {
    const std::scoped_lock lock(mutex_);
    if (context_.env->clock->Now() - looked_ > max_age) return std::nullopt;
  }
  return Look(name);
}

Result<TablePage> Registry::Page(const ListRequest& request) {
  ARROW_RETURN_NOT_OK(Refresh());
  TablePage page;
  const std::scoped_lock lock(mutex_);
  auto row = rows_.lower_bound(request.prefix);
  if (request.start_after >= request.prefix) row = rows_.upper_bound(request.start_after);
  while (row != rows_.end() && row->first.starts_with(request.prefix)) {
    if (request.limit > 0 && page.tables.size() >= request.limit) {
      page.more = true;
      break;
    }
    page.tables.push_back(InfoOf(row->first, row->second));
    row = rows_.upper_bound(row->first);
  }
  return page;
}

uint64_t Registry::size() const {
  const std::scoped_lock lock(mutex_);
  return rows_.size();
}

env::Future<env::Unit> Registry::Add(TableInfo info) {
  Change change{std::move(info), true, {}};
  auto future = change.promise.future();
  Enqueue(std::move(change));
  return future;
}

env::Future<env::Unit> Registry::Remove(const std::string& name) {
  Change change{{name, "", 0}, false, {}};
  auto future = change.promise.future();
  Enqueue(std::move(change));
  return future;
}

void Registry::Enqueue(Change change) {
  std::vector<Change> dropped;  // when the executor has stopped
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(change));
    if (committing_) return;
    committing_ = context_.env->storage->Post([self = shared_from_this()] { self->RunCommit(); });
    if (!committing_) dropped.swap(queue_);
  }
}

void Registry::RunCommit() {
  std::vector<Change> changes;
  {
    const std::scoped_lock lock(mutex_);
    changes.swap(queue_);
  }
  std::vector<Status> answers(changes.size());
  Status removed = CommitRemoves(changes);
  for (size_t i = 0; i < changes.size(); ++i)
    if (!changes[i].add) answers[i] = removed;
  const Status added = CommitAdds(changes, answers);
  for (size_t i = 0; i < changes.size(); ++i)
    if (changes[i].add && answers[i].ok()) answers[i] = added;
  FinishCommit(std::move(changes), answers);
}

void Registry::FinishCommit(std::vector<Change> changes, const std::vector<Status>& answers) {
  for (size_t i = 0; i < changes.size(); ++i) {
    changes[i].promise.Set(answers[i].ok() ? Result<env::Unit>(env::Unit{})
                                           : Result<env::Unit>(answers[i]));
  }
  ++commits_;
  Upkeep();
  std::vector<Change> dropped;
  const std::scoped_lock lock(mutex_);
  committing_ = !queue_.empty();
  if (!committing_) return;
  committing_ = context_.env->storage->Post([self = shared_from_this()] { self->RunCommit(); });
  if (!committing_) dropped.swap(queue_);
}

Result<lance::NewFragment> Registry::WriteRows(const lance::Table& table,
                                               const std::vector<const TableInfo*>& infos) {
  ARROW_ASSIGN_OR_RAISE(const auto batch, BatchOf(infos));
  ARROW_ASSIGN_OR_RAISE(auto appender, table.NewAppender());
  ARROW_RETURN_NOT_OK(appender->Write(*batch));
  return appender->Finish();
}

// Sets the answers of names that are there already; the result is that of the others.
Status Registry::CommitAdds(std::vector<Change>& changes, std::vector<Status>& answers) {
  Status last;
  for (int tries = 0; tries < kCommitTries; ++tries) {
    ARROW_RETURN_NOT_OK(Refresh());
    std::shared_ptr<lance::Table> table;
    std::vector<const TableInfo*> added;
    std::set<std::string_view> names;
    {
      const std::scoped_lock lock(mutex_);
      table = table_;
      for (size_t i = 0; i < changes.size(); ++i) {
        if (!changes[i].add || !answers[i].ok()) continue;
        const TableInfo& info = changes[i].info;
        const bool there = rows_.contains(info.name);
        if (there || !names.insert(info.name).second) {
          answers[i] = Error(ErrorKind::kAlreadyExists, "store '{}' exists already", info.name);
        } else {
          added.push_back(&info);
        }
      }
    }
    if (added.empty()) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(lance::NewFragment fragment, WriteRows(*table, added));
    const std::string data_file = fragment.fragment.files(0).path();
    const auto committed =
        table->CommitAppend({std::move(fragment)}, lance::CommitMode::kOnlyOnThisVersion);
    last = committed.status();
    if (Is(last, ErrorKind::kConflict)) {
      // Nobody knows the file; what cannot be deleted is left over.
      (void)context_.store->Delete(table->path() + "/data/" + data_file);
      continue;
    }
    ARROW_RETURN_NOT_OK(last);
    const uint64_t id = (*committed)->manifest().fragments().rbegin()->id();
    const std::scoped_lock lock(mutex_);
    if (table_ != table) return Status::OK();  // a reader saw the commit, and has the rows
    table_ = *committed;
    uint64_t offset = 0;
    for (const TableInfo* info : added) {
      const bool by_rule = info->uri == uri_prefix_ + info->name + table_suffix_;
      rows_.emplace(info->name,
                    Row{info->created_at_ms, id << 32 | offset++, by_rule ? "" : info->uri});
    }
    return Status::OK();
  }
  return last;
}

Status Registry::CommitRemoves(std::vector<Change>& changes) {
  std::set<std::string> names;
  for (const Change& change : changes)
    if (!change.add) names.insert(change.info.name);
  if (names.empty()) return Status::OK();
  Status last;
  for (int tries = 0; tries < kCommitTries; ++tries) {
    ARROW_RETURN_NOT_OK(Refresh());
    std::shared_ptr<lance::Table> table;
    std::vector<lance::RowAddress> addresses;
    {
      const std::scoped_lock lock(mutex_);
      table = table_;
      for (const std::string& name : names) {
        const auto [first, end] = rows_.equal_range(name);
        for (auto row = first; row != end; ++row) addresses.push_back(row->second.address);
      }
    }
    if (addresses.empty()) return Status::OK();
    const auto committed = table->CommitDelete(addresses);
    last = committed.status();
    // Others rewrote the rows: they have new addresses.
    if (Is(last, ErrorKind::kConflict) || Is(last, ErrorKind::kNotFound)) continue;
    ARROW_RETURN_NOT_OK(last);
    const std::scoped_lock lock(mutex_);
    if (table_ != table || (*committed)->version() != table->version().Next()) continue;
    table_ = *committed;
    for (const std::string& name : names) rows_.erase(name);
    return Status::OK();
  }
  return last;
}

}  // namespace sarissa::engine
