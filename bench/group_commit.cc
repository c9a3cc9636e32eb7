// Closed-loop appends to one shard writer on a local directory whose syncs cost a given time: what
// group commit makes of many clients. Prints one JSON object. Afterwards the shard is opened anew,
// without the delay, and its ids are compared with the acknowledged ones; a difference makes the
// run void (exit code 1).

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "env/posix/posix_env.h"
#include "lance/table/table.h"
#include "memwal/names.h"
#include "memwal/shard_writer.h"
#include "memwal/storage_schema.h"
#include "object_store/local_store.h"
#include "slow_sync.h"

namespace sarissa::bench {
namespace {

constexpr env::Duration kWaitLimit = std::chrono::seconds(60);
constexpr char kTable[] = "bench";

struct GroupCommitOptions {
  int clients = 1;
  int rows_per_append = 1;
  double sync_delay_ms = 0;
  double seconds = 2;
  double warmup = 0.3;
  int storage_threads = 16;
  std::string directory;
};

GroupCommitOptions ParseOptions(int argc, char** argv) {
  GroupCommitOptions options;
  CLI::App app{"Appends by many clients to one shard under syncs of a given cost"};
  app.add_option("--clients", options.clients, "Threads, each with one append in flight")
      ->check(CLI::Range(1, 4096));
  app.add_option("--rows-per-append", options.rows_per_append)->check(CLI::Range(1, 10'000));
  app.add_option("--sync-delay-ms", options.sync_delay_ms,
                 "Added to every sync of a file and of a directory")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--seconds", options.seconds, "Length of the measured window")
      ->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "Seconds before the window")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--storage-threads", options.storage_threads)->check(CLI::Range(1, 256));
  app.add_option("--directory", options.directory, "An empty directory for the shard")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

template <typename Ratio = std::ratio<1>>
env::Duration ToDuration(double count) {
  return std::chrono::duration_cast<env::Duration>(std::chrono::duration<double, Ratio>(count));
}

Result<lance::Schema> BaseSchema() {
  const auto key = arrow::key_value_metadata({lance::kPrimaryKeyMetadata}, {"true"});
  return lance::Schema::FromArrow(
      *arrow::schema({arrow::field("id", arrow::utf8(), /*nullable=*/false, key),
                      arrow::field("value", arrow::int64())}));
}

std::string RowId(int client, uint64_t sequence) {
  return fmt::format("bench-{:04x}-{:012x}", client, sequence);
}

struct Window {
  env::MonotonicTime begin;
  env::MonotonicTime end;
};

// One append in flight at a time, until the window ends or an append fails.
class Client {
 public:
  Client(int number, int rows_per_append, lance::Schema base, lance::Schema storage)
      : number_(number),
        rows_per_append_(rows_per_append),
        base_(std::move(base)),
        storage_(std::move(storage)) {}

  void Run(memwal::ShardWriter& writer, const env::Clock& clock, Window window) {
    while (status_.ok() && clock.Now() < window.end) status_ = AppendOnce(writer, clock, window);
  }

  const Status& status() const { return status_; }
  // Ids are numbered from 0 without a gap.
  uint64_t acknowledged_rows() const { return next_row_; }
  // Of the appends that were acknowledged within the window.
  const std::vector<env::Duration>& latencies() const { return latencies_; }
  // The log entry of every acknowledged append.
  const std::vector<uint64_t>& positions() const { return positions_; }

 private:
  Status AppendOnce(memwal::ShardWriter& writer, const env::Clock& clock, Window window) {
    ARROW_ASSIGN_OR_RAISE(auto batch, NextBatch());
    const env::MonotonicTime started = clock.Now();
    ARROW_ASSIGN_OR_RAISE(const memwal::AppendResult appended,
                          writer.Append({std::move(batch)}, {}).Wait(kWaitLimit));
    const env::MonotonicTime ended = clock.Now();
    if (window.begin <= ended && ended < window.end) latencies_.push_back(ended - started);
    positions_.push_back(appended.position.value());
    next_row_ += static_cast<uint64_t>(rows_per_append_);
    return Status::OK();
  }

  Result<std::shared_ptr<arrow::RecordBatch>> NextBatch() const {
    arrow::StringBuilder ids;
    arrow::Int64Builder values;
    for (int row = 0; row < rows_per_append_; ++row) {
      const uint64_t sequence = next_row_ + static_cast<uint64_t>(row);
      ARROW_RETURN_NOT_OK(ids.Append(RowId(number_, sequence)));
      ARROW_RETURN_NOT_OK(values.Append(static_cast<int64_t>(sequence)));
    }
    ARROW_ASSIGN_OR_RAISE(auto id_column, ids.Finish());
    ARROW_ASSIGN_OR_RAISE(auto value_column, values.Finish());
    return memwal::WithLiveTombstones(
        arrow::RecordBatch::Make(base_.arrow_schema(), rows_per_append_,
                                 {std::move(id_column), std::move(value_column)}),
        storage_);
  }

  const int number_;
  const int rows_per_append_;
  const lance::Schema base_;
  const lance::Schema storage_;
  Status status_;
  uint64_t next_row_ = 0;
  std::vector<env::Duration> latencies_;
  std::vector<uint64_t> positions_;
};

class GroupCommitRun {
 public:
  explicit GroupCommitRun(GroupCommitOptions options)
      : options_(std::move(options)),
        machine_({.storage_threads = options_.storage_threads}),
        slow_(*machine_.env().file_system, ToDuration<std::milli>(options_.sync_delay_ms)) {}

  // False when the rows that are there afterwards are not the acknowledged ones.
  Result<bool> Run() {
    ARROW_ASSIGN_OR_RAISE(const lance::Schema base, BaseSchema());
    ARROW_ASSIGN_OR_RAISE(storage_schema_, memwal::StorageSchema(base));
    for (int number = 0; number < options_.clients; ++number) {
      clients_.push_back(
          std::make_unique<Client>(number, options_.rows_per_append, base, storage_schema_));
    }
    ARROW_RETURN_NOT_OK(Load());
    ARROW_ASSIGN_OR_RAISE(const bool verified, Verify());
    Report(verified);
    return verified;
  }

 private:
  Result<std::shared_ptr<memwal::ShardWriter>> OpenShard(object_store::ObjectStore& store,
                                                         const env::Env& env) const {
    memwal::ShardOptions shard;
    shard.store = &store;
    shard.env = &env;
    shard.table = kTable;
    shard.shard = shard_;
    shard.storage_schema = storage_schema_;
    return memwal::ShardWriter::Open(std::move(shard));
  }

  Status Load() {
    env::Env env = machine_.env();
    env.file_system = &slow_;
    ARROW_ASSIGN_OR_RAISE(const auto store,
                          object_store::LocalStore::Open(slow_, *env.random, options_.directory));
    ARROW_ASSIGN_OR_RAISE(const auto writer, OpenShard(*store, env));
    const uint64_t syncs_before = slow_.syncs();
    RunClients(*writer, *env.clock);
    syncs_ = slow_.syncs() - syncs_before;
    // What is in the log stays there: the check begins with a replay.
    ARROW_RETURN_NOT_OK(writer->Close(memwal::CloseMode::kDiscard).Wait(kWaitLimit).status());
    for (const auto& client : clients_) ARROW_RETURN_NOT_OK(client->status());
    return Status::OK();
  }

  void RunClients(memwal::ShardWriter& writer, const env::Clock& clock) {
    Window window;
    window.begin = clock.Now() + ToDuration(options_.warmup);
    window.end = window.begin + ToDuration(options_.seconds);
    std::vector<std::jthread> threads;
    for (const auto& client : clients_) {
      threads.emplace_back([&] { client->Run(writer, clock, window); });
    }
  }

  Result<bool> Verify() {
    std::unordered_set<std::string> missing;
    for (int number = 0; number < options_.clients; ++number) {
      const uint64_t rows = clients_[static_cast<size_t>(number)]->acknowledged_rows();
      for (uint64_t row = 0; row < rows; ++row) missing.insert(RowId(number, row));
    }
    acknowledged_ = missing.size();
    ARROW_ASSIGN_OR_RAISE(const std::vector<std::string> listed, ListIds());
    uint64_t surplus = 0;
    for (const std::string& id : listed) surplus += missing.erase(id) == 0 ? 1 : 0;
    if (missing.empty() && surplus == 0) return true;
    fmt::print(stderr, "void: of {} acknowledged rows {} are lost; {} are doubled or made up\n",
               acknowledged_, missing.size(), surplus);
    return false;
  }

  // Of every row that a new writer finds.
  Result<std::vector<std::string>> ListIds() {
    const env::Env& env = machine_.env();
    ARROW_ASSIGN_OR_RAISE(const auto store, object_store::LocalStore::Open(
                                                *env.file_system, *env.random, options_.directory));
    ARROW_ASSIGN_OR_RAISE(const auto writer, OpenShard(*store, env));
    std::vector<std::string> ids;
    const auto add = [&ids](const arrow::RecordBatch& batch) {
      const auto& column = static_cast<const arrow::StringArray&>(*batch.column(0));
      for (int64_t row = 0; row < batch.num_rows(); ++row) ids.push_back(column.GetString(row));
    };
    const memwal::ShardView view = writer->View();
    for (const auto& generation : view.generations) {
      const std::string folder = memwal::ShardPrefix(kTable, shard_) + generation.path();
      ARROW_ASSIGN_OR_RAISE(const auto table, lance::Table::Open({store.get(), &env}, folder));
      ARROW_ASSIGN_OR_RAISE(auto stream, table->Scan({}));
      while (true) {
        ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
        if (batch == nullptr) break;
        add(*batch);
      }
    }
    for (const auto& memtable : view.memtables) {
      for (const auto& held : memtable.batches()) add(*held->batch);
    }
    ARROW_RETURN_NOT_OK(writer->Close(memwal::CloseMode::kDiscard).Wait(kWaitLimit).status());
    return ids;
  }

  void Report(bool verified) const {
    std::vector<env::Duration> latencies;
    std::vector<uint64_t> positions;
    for (const auto& client : clients_) {
      latencies.insert(latencies.end(), client->latencies().begin(), client->latencies().end());
      positions.insert(positions.end(), client->positions().begin(), client->positions().end());
    }
    std::sort(latencies.begin(), latencies.end());
    std::sort(positions.begin(), positions.end());
    const auto entries = std::unique(positions.begin(), positions.end()) - positions.begin();
    const auto milliseconds = [&](double quantile) {
      if (latencies.empty()) return 0.0;
      const auto rank = std::ceil(static_cast<double>(latencies.size()) * quantile);
      return std::chrono::duration<double, std::milli>(latencies[static_cast<size_t>(rank) - 1])
          .count();
    };
    const size_t rows = latencies.size() * static_cast<size_t>(options_.rows_per_append);
    fmt::print(
        R"({{"rows":{},"appends":{},"seconds":{},"rows_per_second":{:.1f},"p50_ms":{:.4f},"p99_ms":{:.4f},)"
        R"("acknowledged":{},"entries":{},"rows_per_entry":{:.3f},"syncs":{},"storage_threads":{},"verified":{}}})"
        "\n",
        rows, latencies.size(), options_.seconds, static_cast<double>(rows) / options_.seconds,
        milliseconds(0.5), milliseconds(0.99), acknowledged_, entries,
        static_cast<double>(acknowledged_) / static_cast<double>(std::max<int64_t>(entries, 1)),
        syncs_, options_.storage_threads, verified);
  }

  const GroupCommitOptions options_;
  const ShardId shard_ = ShardId::FromName("default");
  env::PosixEnv machine_;
  SlowSyncFileSystem slow_;
  lance::Schema storage_schema_;
  std::vector<std::unique_ptr<Client>> clients_;
  uint64_t syncs_ = 0;
  uint64_t acknowledged_ = 0;
};

}  // namespace
}  // namespace sarissa::bench

int main(int argc, char** argv) {
  sarissa::bench::GroupCommitRun run(sarissa::bench::ParseOptions(argc, argv));
  const auto verified = run.Run();
  if (!verified.ok()) {
    fmt::print(stderr, "group_commit: {}\n", verified.status().message());
    return 2;
  }
  return *verified ? 0 : 1;
}
