// Drives lance/table and lance/index from the command line, for the interop tests. Rows go in and
// out as Arrow IPC streams.
//
//   lance_table_tool create ROOT TABLE VERSION SCHEMA_STREAM [KEY=VALUE ...]
//   lance_table_tool append ROOT TABLE ROWS_STREAM
//   lance_table_tool delete ROOT TABLE ADDRESS ...
//   lance_table_tool scan ROOT TABLE OUT_STREAM TABLE_VERSION(0: newest) BATCH_ROWS [COLUMN ...]
//   lance_table_tool take ROOT TABLE OUT_STREAM ADDRESS ...
//   lance_table_tool index ROOT TABLE COLUMN
//   lance_table_tool generation ROOT BASE_TABLE TABLE ROWS_STREAM [MASKED_OFFSET ...]
//   lance_table_tool find ROOT DIRECTORY VALUE
#include <arrow/array/concatenate.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>

#include <cstdio>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "env/posix/posix_env.h"
#include "lance/index/bloom_filter.h"
#include "lance/index/btree.h"
#include "lance/table/roaring_format.h"
#include "lance/table/table.h"
#include "object_store/local_store.h"

namespace sarissa::lance {
namespace {

using Arguments = std::vector<std::string>;

Result<std::shared_ptr<arrow::ipc::RecordBatchStreamReader>> OpenStream(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::ReadableFile::Open(path));
  return arrow::ipc::RecordBatchStreamReader::Open(file);
}

Status WriteStream(const std::string& path, const std::shared_ptr<arrow::Schema>& schema,
                   const std::function<Result<std::shared_ptr<arrow::RecordBatch>>()>& next) {
  ARROW_ASSIGN_OR_RAISE(const auto file, arrow::io::FileOutputStream::Open(path));
  ARROW_ASSIGN_OR_RAISE(const auto writer, arrow::ipc::MakeStreamWriter(file, schema));
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, next());
    if (batch == nullptr) break;
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*batch));
  }
  ARROW_RETURN_NOT_OK(writer->Close());
  return file->Close();
}

std::vector<RowAddress> Addresses(const Arguments& arguments, size_t first) {
  std::vector<RowAddress> out;
  for (size_t i = first; i < arguments.size(); ++i) out.push_back(std::stoull(arguments[i]));
  return out;
}

void PrintVersion(const Table& table) {
  std::printf("version %llu rows %llu\n", static_cast<unsigned long long>(table.version().value()),
              static_cast<unsigned long long>(table.CountRows()));
}

Status Create(const TableContext& context, const Arguments& arguments) {
  ARROW_ASSIGN_OR_RAISE(const auto stream, OpenStream(arguments[2]));
  ARROW_ASSIGN_OR_RAISE(const Schema schema, Schema::FromArrow(*stream->schema()));
  CreateOptions options;
  ARROW_ASSIGN_OR_RAISE(options.version, FileVersion::Parse(arguments[1]));
  for (size_t i = 3; i < arguments.size(); ++i) {
    const size_t equals = arguments[i].find('=');
    options.config[arguments[i].substr(0, equals)] = arguments[i].substr(equals + 1);
  }
  ARROW_ASSIGN_OR_RAISE(const auto table, Table::Create(context, arguments[0], schema, options));
  PrintVersion(*table);
  return Status::OK();
}

Status Append(const TableContext& context, const Arguments& arguments) {
  ARROW_ASSIGN_OR_RAISE(const auto table, Table::Open(context, arguments[0]));
  ARROW_ASSIGN_OR_RAISE(const auto stream, OpenStream(arguments[1]));
  ARROW_ASSIGN_OR_RAISE(const auto appender, table->NewAppender());
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) break;
    ARROW_RETURN_NOT_OK(appender->Write(*batch));
  }
  ARROW_ASSIGN_OR_RAISE(auto fragment, appender->Finish());
  ARROW_ASSIGN_OR_RAISE(const auto after, table->CommitAppend({std::move(fragment)}));
  PrintVersion(*after);
  return Status::OK();
}

Status Delete(const TableContext& context, const Arguments& arguments) {
  ARROW_ASSIGN_OR_RAISE(const auto table, Table::Open(context, arguments[0]));
  ARROW_ASSIGN_OR_RAISE(const auto after, table->CommitDelete(Addresses(arguments, 1)));
  PrintVersion(*after);
  return Status::OK();
}

Status Scan(const TableContext& context, const Arguments& arguments) {
  std::optional<TableVersion> version;
  if (arguments[2] != "0") version = TableVersion(std::stoull(arguments[2]));
  ARROW_ASSIGN_OR_RAISE(const auto table, Table::Open(context, arguments[0], version));
  ScanOptions options;
  options.batch_rows = std::stoull(arguments[3]);
  options.with_row_address = true;
  if (arguments.size() > 4) options.columns = Arguments(arguments.begin() + 4, arguments.end());
  ARROW_ASSIGN_OR_RAISE(const auto stream, table->Scan(options));
  PrintVersion(*table);
  return WriteStream(arguments[1], stream->schema(), [&] { return stream->Next(); });
}

Status Take(const TableContext& context, const Arguments& arguments) {
  ARROW_ASSIGN_OR_RAISE(const auto table, Table::Open(context, arguments[0]));
  ARROW_ASSIGN_OR_RAISE(auto batch, table->Take(Addresses(arguments, 2), std::nullopt));
  const auto schema = batch->schema();
  return WriteStream(arguments[1], schema, [&]() -> Result<std::shared_ptr<arrow::RecordBatch>> {
    return std::exchange(batch, nullptr);
  });
}

Status Index(const TableContext& context, const Arguments& arguments) {
  ARROW_ASSIGN_OR_RAISE(const auto table, Table::Open(context, arguments[0]));
  const std::string& column = arguments[1];
  ARROW_ASSIGN_OR_RAISE(const Schema projection, table->schema().Select({column}));
  ScanOptions options;
  options.columns = {column};
  options.with_row_address = true;
  ARROW_ASSIGN_OR_RAISE(const auto stream, table->Scan(options));
  arrow::ArrayVector chunks;
  std::vector<uint64_t> ids;
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) break;
    chunks.push_back(batch->column(0));
    const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch->column(1));
    ids.insert(ids.end(), addresses.raw_values(), addresses.raw_values() + addresses.length());
  }
  ARROW_ASSIGN_OR_RAISE(const auto values, arrow::Concatenate(chunks));
  const Uuid uuid = context.env->random->NextUuid();
  BTreeOptions tree_options;
  tree_options.version = table->file_version();
  tree_options.batch_size = 4096;
  ARROW_ASSIGN_OR_RAISE(const BTreeFiles files,
                        WriteBTree(*context.store, arguments[0] + "/_indices/" + uuid.ToString(),
                                   values, ids, tree_options));
  std::vector<uint32_t> fragments;
  for (const auto& fragment : table->manifest().fragments())
    fragments.push_back(static_cast<uint32_t>(fragment.id()));

  pb::table::IndexMetadata index;
  index.mutable_uuid()->set_uuid(std::string(uuid.bytes.begin(), uuid.bytes.end()));
  index.add_fields(projection.AllLeafIds()[0]);
  index.set_name(column + "_idx");
  index.set_dataset_version(table->version().value());
  index.set_fragment_bitmap(SerializeRoaring(fragments));
  index.mutable_index_details()->set_type_url("/lance.table.BTreeIndexDetails");
  index.set_index_version(0);
  index.set_created_at(1);
  auto* data = index.add_files();
  data->set_path("page_data.lance");
  data->set_size_bytes(files.page_data_bytes);
  auto* lookup = index.add_files();
  lookup->set_path("page_lookup.lance");
  lookup->set_size_bytes(files.page_lookup_bytes);
  ARROW_ASSIGN_OR_RAISE(const auto after, table->CommitIndices({index}, {column + "_idx"}));
  PrintVersion(*after);
  return Status::OK();
}

// The rows carry `_tombstone` as their last column; all other fields keep the base table's ids.
Status MakeGeneration(const TableContext& context, const Arguments& arguments) {
  ARROW_ASSIGN_OR_RAISE(const auto base, Table::Open(context, arguments[0]));
  const std::string& path = arguments[1];
  ARROW_ASSIGN_OR_RAISE(const auto stream, OpenStream(arguments[2]));
  ARROW_ASSIGN_OR_RAISE(const auto batches, stream->ToRecordBatches());
  std::vector<uint32_t> masked;
  for (const RowAddress address : Addresses(arguments, 3))
    masked.push_back(static_cast<uint32_t>(address));

  const auto key = base->schema().PrimaryKey();
  if (key.size() != 1) return Error(ErrorKind::kInvalid, "the base table must have one key column");
  ARROW_ASSIGN_OR_RAISE(const Schema schema,
                        base->schema().WithNullable(key).WithAppended(
                            arrow::field("_tombstone", arrow::boolean(), false)));
  size_t next = 0;
  const auto next_batch = [&]() -> Result<std::shared_ptr<arrow::RecordBatch>> {
    if (next == batches.size()) return nullptr;
    return batches[next++];
  };
  ARROW_ASSIGN_OR_RAISE(
      const auto table,
      WriteSingleFragmentTable(context, path, schema, base->file_version(), next_batch, masked));
  arrow::ArrayVector chunks;
  for (const auto& batch : batches) chunks.push_back(batch->GetColumnByName(key[0]));
  ARROW_ASSIGN_OR_RAISE(const auto keys, arrow::Concatenate(chunks));
  std::vector<uint64_t> offsets(static_cast<size_t>(keys->length()));
  std::iota(offsets.begin(), offsets.end(), uint64_t{0});
  BTreeOptions options;
  options.version = base->file_version();
  ARROW_RETURN_NOT_OK(
      WriteBTree(*context.store, path + "/_pk_index", keys, offsets, options).status());
  BloomFilter filter = BloomFilter::ForKeys(static_cast<uint64_t>(keys->length()));
  for (int64_t row = 0; row < keys->length(); ++row) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t hash, KeyHash({&keys, 1}, row));
    filter.Add(hash);
  }
  ARROW_RETURN_NOT_OK(context.store->Put(path + "/bloom_filter.bin", filter.bytes(),
                                         object_store::PutMode::kIfAbsent));
  PrintVersion(*table);
  return Status::OK();
}

Status Find(const TableContext& context, const Arguments& arguments) {
  ARROW_ASSIGN_OR_RAISE(const auto tree, BTreeReader::Open(*context.store, arguments[0]));
  ARROW_ASSIGN_OR_RAISE(const auto value, arrow::Scalar::Parse(tree->value_type(), arguments[1]));
  ARROW_ASSIGN_OR_RAISE(const auto ids, tree->Find(*value));
  for (const uint64_t id : ids) std::printf("%llu\n", static_cast<unsigned long long>(id));
  return Status::OK();
}

Status Run(const std::string& command, const std::string& root, const Arguments& arguments) {
  using Command = Status (*)(const TableContext&, const Arguments&);
  struct Entry {
    Command command;
    size_t least_arguments;
  };
  const std::map<std::string, Entry> commands = {
      {"create", {Create, 3}},
      {"append", {Append, 2}},
      {"delete", {Delete, 1}},
      {"scan", {Scan, 4}},
      {"take", {Take, 2}},
      {"index", {Index, 2}},
      {"generation", {MakeGeneration, 3}},
      {"find", {Find, 2}},
  };
  const auto found = commands.find(command);
  if (found == commands.end() || arguments.size() < found->second.least_arguments) {
    return Error(ErrorKind::kInvalid, "unknown command, or too few arguments: {}", command);
  }
  env::PosixEnv env;
  ARROW_ASSIGN_OR_RAISE(const auto store, object_store::LocalStore::Open(*env.env().file_system,
                                                                         *env.env().random, root));
  return found->second.command(TableContext{store.get(), &env.env()}, arguments);
}

}  // namespace
}  // namespace sarissa::lance

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s COMMAND ROOT ...\n", argv[0]);
    return 2;
  }
  const auto status = sarissa::lance::Run(argv[1], argv[2], {argv + 3, argv + argc});
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n",
               std::string(sarissa::ErrorKindName(sarissa::KindOf(status))).c_str(),
               status.ToString().c_str());
  return 1;
}
