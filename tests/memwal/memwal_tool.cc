// Drives one shard of a table that exists, for the interop tests. Commands come line by line on the
// standard input, answers go out the same way: "ok ..." or "error KIND: MESSAGE".
//
//   memwal_tool ROOT TABLE SHARD
//     open | append ID | flush | close | vanish | rows
//     cleanup | adopt        removes what it may; `adopt` by force
//
// SARISSA_KILL_AT=cleanup.after_delete:N ends the process at the N-th removal.
#include <arrow/array/array_dict.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/util.h>
#include <arrow/scalar.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "base/sync_point.h"
#include "env/posix/posix_env.h"
#include "lance/table/table.h"
#include "memwal/clean_up.h"
#include "memwal/names.h"
#include "memwal/shard_writer.h"
#include "memwal/storage_schema.h"
#include "object_store/local_store.h"

namespace sarissa::memwal {
namespace {

constexpr env::Duration kWait = std::chrono::seconds(60);

// One value for a column that may not be null.
Result<std::shared_ptr<arrow::Array>> Filler(const std::shared_ptr<arrow::DataType>& type) {
  if (type->id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryType&>(*type);
    ARROW_ASSIGN_OR_RAISE(const auto index, Filler(dictionary.index_type()));
    ARROW_ASSIGN_OR_RAISE(const auto value, Filler(dictionary.value_type()));
    return arrow::DictionaryArray::FromArrays(type, index, value);
  }
  if (type->id() == arrow::Type::TIMESTAMP) {
    ARROW_ASSIGN_OR_RAISE(const auto ticks, Filler(arrow::int64()));
    return ticks->View(type);
  }
  const char* text = type->id() == arrow::Type::BOOL ? "true" : "0";
  ARROW_ASSIGN_OR_RAISE(const auto scalar, arrow::Scalar::Parse(type, text));
  return arrow::MakeArrayFromScalar(*scalar, 1);
}

class Session {
 public:
  Session(object_store::ObjectStore& store, const env::Env& env, std::string table, ShardId shard)
      : store_(store), env_(env), table_(std::move(table)), shard_(shard) {}

  Result<std::string> Do(const std::string& command, const std::string& argument) {
    if (command == "open") return Open();
    if (command == "cleanup") return Clean(false);
    if (command == "adopt") return Clean(true);
    if (writer_ == nullptr) return Error(ErrorKind::kInvalid, "{}: not open", command);
    if (command == "append") return Append(argument);
    if (command == "flush") {
      ARROW_ASSIGN_OR_RAISE(const FlushOutcome outcome,
                            writer_->Seal().Wait(*env_.storage).Wait(kWait));
      return fmt::format("generation {}", outcome.generation);
    }
    if (command == "close") {
      ARROW_RETURN_NOT_OK(writer_->Close().Wait(kWait).status());
      writer_.reset();
      return std::string("closed");
    }
    if (command == "rows") return Rows();
    return Error(ErrorKind::kInvalid, "unknown command {}", command);
  }

 private:
  Result<std::string> Open() {
    ARROW_ASSIGN_OR_RAISE(const auto base, lance::Table::Open({&store_, &env_}, table_));
    ARROW_ASSIGN_OR_RAISE(schema_, StorageSchema(base->schema()));
    base_ = base->schema();
    key_ = base_.PrimaryKey().front();
    ShardOptions options;
    options.store = &store_;
    options.env = &env_;
    options.table = table_;
    options.shard = shard_;
    options.storage_schema = schema_;
    options.file_version = base->file_version();
    ARROW_ASSIGN_OR_RAISE(writer_, ShardWriter::Open(std::move(options)));
    return fmt::format("epoch {}", writer_->epoch());
  }

  // A row of the key and nulls, or fillers where the base table wants a value.
  Result<std::string> Append(const std::string& id) {
    arrow::ArrayVector columns;
    for (const auto& field : base_.arrow_schema()->fields()) {
      if (field->name() == key_) {
        arrow::StringBuilder builder;
        ARROW_RETURN_NOT_OK(builder.Append(id));
        ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), builder.Finish());
      } else if (field->nullable()) {
        ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), arrow::MakeArrayOfNull(field->type(), 1));
      } else {
        ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), Filler(field->type()));
      }
    }
    const auto row = arrow::RecordBatch::Make(base_.arrow_schema(), 1, std::move(columns));
    ARROW_ASSIGN_OR_RAISE(auto batch, WithLiveTombstones(row, schema_));
    ARROW_ASSIGN_OR_RAISE(const AppendResult result,
                          writer_->Append({std::move(batch)}, {}).Wait(kWait));
    return fmt::format("position {}", result.position);
  }

  Result<std::string> Rows() {
    const ShardView view = writer_->View();
    if (!view.owned) return writer_->status();
    std::string ids;
    const int key = schema_.arrow_schema()->GetFieldIndex(key_);
    const auto add = [&](const arrow::RecordBatch& batch, int column) {
      const auto& keys = static_cast<const arrow::StringArray&>(*batch.column(column));
      for (int64_t row = 0; row < keys.length(); ++row) ids += keys.GetString(row) + " ";
    };
    for (const auto& generation : view.generations) {
      const std::string folder = ShardPrefix(table_, shard_) + generation.path();
      ARROW_ASSIGN_OR_RAISE(const auto table, lance::Table::Open({&store_, &env_}, folder));
      lance::ScanOptions options;
      options.columns = {key_};
      ARROW_ASSIGN_OR_RAISE(const auto stream, table->Scan(options));
      for (;;) {
        ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
        if (batch == nullptr) break;
        add(*batch, 0);
      }
    }
    for (const auto& memtable : view.memtables) {
      for (const auto& held : memtable.batches()) add(*held->batch, key);
    }
    return ids;
  }

  Result<std::string> Clean(bool force) {
    CleanUpOptions options;
    options.store = &store_;
    options.clock = env_.clock;
    options.table = table_;
    options.shard = shard_;
    options.retention = env::Duration(0);
    options.adopt_by_force = force;
    CleanUpReport report;
    ARROW_RETURN_NOT_OK(CleanUpShard(options, state_, report));
    return fmt::format("log {} held {} manifests {} folders {}", report.log_entries_removed,
                       report.log_entries_held, report.manifests_removed,
                       report.drained_removed + report.orphans_removed);
  }

  object_store::ObjectStore& store_;
  const env::Env& env_;
  const std::string table_;
  const ShardId shard_;
  lance::Schema base_;
  lance::Schema schema_;
  std::string key_;
  std::shared_ptr<ShardWriter> writer_;
  CleanUpState state_;
};

Status Run(const std::string& root, const std::string& table, const std::string& shard_text) {
  env::PosixEnv env;
  ARROW_ASSIGN_OR_RAISE(const auto store, object_store::LocalStore::Open(*env.env().file_system,
                                                                         *env.env().random, root));
  ARROW_ASSIGN_OR_RAISE(const ShardId shard, ShardId::Parse(shard_text));
  Session session(*store, env.env(), table, shard);
  std::string line;
  while (std::getline(std::cin, line)) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string command = line.substr(0, space);
    // As if it were killed.
    if (command == "vanish") std::_Exit(0);
    const auto answer = session.Do(command, line.substr(std::min(space + 1, line.size())));
    if (answer.ok()) {
      std::cout << "ok " << *answer << std::endl;
    } else {
      std::cout << "error " << ErrorKindName(KindOf(answer.status())) << ": "
                << answer.status().message() << std::endl;
    }
  }
  return Status::OK();
}

}  // namespace
}  // namespace sarissa::memwal

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s ROOT TABLE SHARD < COMMANDS\n", argv[0]);
    return 2;
  }
  sarissa::SyncPoints::Instance().ArmFromEnvironment();
  const auto status = sarissa::memwal::Run(argv[1], argv[2], argv[3]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
