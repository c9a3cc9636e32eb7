#include "engine/registry.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>

#include "engine/newest_version.h"
#include "lance/table/manifest.h"

namespace sarissa::engine {
namespace {

std::shared_ptr<arrow::Schema> RegistrySchema() {
  return arrow::schema({arrow::field("name", arrow::utf8(), false),
                        arrow::field("uri", arrow::utf8(), false),
                        arrow::field("created_at", arrow::int64(), false)});
}

Result<std::shared_ptr<arrow::RecordBatch>> OneRow(const TableInfo& info) {
  arrow::StringBuilder names;
  arrow::StringBuilder uris;
  arrow::Int64Builder times;
  ARROW_RETURN_NOT_OK(names.Append(info.name));
  ARROW_RETURN_NOT_OK(uris.Append(info.uri));
  ARROW_RETURN_NOT_OK(times.Append(info.created_at_ms));
  ARROW_ASSIGN_OR_RAISE(auto name, names.Finish());
  ARROW_ASSIGN_OR_RAISE(auto uri, uris.Finish());
  ARROW_ASSIGN_OR_RAISE(auto time, times.Finish());
  return arrow::RecordBatch::Make(RegistrySchema(), 1, {name, uri, time});
}

}  // namespace

Result<std::unique_ptr<Registry>> Registry::Open(lance::TableContext context,
                                                 const std::string& path) {
  auto table = lance::Table::Open(context, path);
  if (!table.ok() && Is(table.status(), ErrorKind::kNotFound)) {
    ARROW_ASSIGN_OR_RAISE(const auto schema, lance::Schema::FromArrow(*RegistrySchema()));
    table = lance::Table::Create(context, path, schema, {});
    // Another process was faster.
    if (Is(table.status(), ErrorKind::kAlreadyExists)) table = lance::Table::Open(context, path);
  }
  if (!table.ok()) return Annotate(table.status(), path);
  auto state = Load(*table);
  if (!state.ok()) {
    // A manifest that parses and makes no sense.
    const Status& status = state.status();
    const bool nonsense = Is(status, ErrorKind::kInvalid);
    return Annotate(nonsense ? WithKind(status, ErrorKind::kCorrupt) : status,
                    fmt::format("{} version {}", path, (*table)->version()));
  }
  ARROW_ASSIGN_OR_RAISE(const lance::TableTip tip, lance::FindTip(*context.store, path));
  const bool torn = tip.taken > tip.newest.version;
  return std::unique_ptr<Registry>(new Registry(*std::move(state), torn));
}

Result<std::shared_ptr<const Registry::State>> Registry::Load(std::shared_ptr<lance::Table> table) {
  auto state = std::make_shared<State>();
  lance::ScanOptions options;
  options.columns = RegistrySchema()->field_names();
  options.with_row_address = true;
  options.batch_rows = 16 << 10;
  ARROW_ASSIGN_OR_RAISE(auto stream, table->Scan(options));
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) break;
    const auto& names = static_cast<const arrow::StringArray&>(*batch->column(0));
    const auto& uris = static_cast<const arrow::StringArray&>(*batch->column(1));
    const auto& times = static_cast<const arrow::Int64Array&>(*batch->column(2));
    const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch->column(3));
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      TableInfo info{names.GetString(row), uris.GetString(row), times.Value(row)};
      const std::string name = info.name;
      state->rows.emplace(name, Row{std::move(info), addresses.Value(row)});
    }
  }
  state->table = std::move(table);
  return std::shared_ptr<const State>(std::move(state));
}

Status Registry::Adopt(std::shared_ptr<lance::Table> table) {
  ARROW_ASSIGN_OR_RAISE(auto state, Load(std::move(table)));
  const std::scoped_lock lock(mutex_);
  if (state_->table->version() < state->table->version()) state_ = std::move(state);
  return Status::OK();
}

Result<std::shared_ptr<const Registry::State>> Registry::Refresh() {
  std::shared_ptr<const State> state;
  {
    const std::scoped_lock lock(mutex_);
    state = state_;
  }
  ARROW_ASSIGN_OR_RAISE(auto newest, NewestVersion(state->table));
  if (newest->version() == state->table->version()) return state;
  ARROW_RETURN_NOT_OK(Adopt(std::move(newest)));
  const std::scoped_lock lock(mutex_);
  return state_;
}

Result<std::optional<TableInfo>> Registry::Find(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const auto state, Refresh());
  const auto found = state->rows.find(name);
  if (found == state->rows.end()) return std::optional<TableInfo>();
  return std::optional<TableInfo>(found->second.info);
}

Result<std::map<std::string, TableInfo>> Registry::All() {
  ARROW_ASSIGN_OR_RAISE(const auto state, Refresh());
  std::map<std::string, TableInfo> all;
  for (const auto& [name, row] : state->rows) all.emplace(name, row.info);
  return all;
}

Status Registry::Add(const TableInfo& info) {
  ARROW_ASSIGN_OR_RAISE(const auto state, Refresh());
  ARROW_ASSIGN_OR_RAISE(const auto row, OneRow(info));
  ARROW_ASSIGN_OR_RAISE(auto appender, state->table->NewAppender());
  ARROW_RETURN_NOT_OK(appender->Write(*row));
  ARROW_ASSIGN_OR_RAISE(lance::NewFragment fragment, appender->Finish());
  ARROW_ASSIGN_OR_RAISE(auto committed, state->table->CommitAppend({std::move(fragment)}));
  return Adopt(std::move(committed));
}

Status Registry::Remove(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const auto state, Refresh());
  std::vector<lance::RowAddress> addresses;
  const auto [first, last] = state->rows.equal_range(name);
  for (auto row = first; row != last; ++row) addresses.push_back(row->second.address);
  if (addresses.empty()) return Status::OK();
  ARROW_ASSIGN_OR_RAISE(auto committed, state->table->CommitDelete(addresses));
  return Adopt(std::move(committed));
}

}  // namespace sarissa::engine
