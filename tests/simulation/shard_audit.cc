#include "tests/simulation/shard_audit.h"

#include <map>
#include <optional>
#include <set>

#include "memwal/clean_up.h"
#include "memwal/mem_wal_index.h"
#include "memwal/names.h"
#include "memwal/shard_log.h"
#include "memwal/shard_manifest.h"

namespace sarissa::simulation {
namespace {

template <typename... Args>
Status Violation(fmt::format_string<Args...> format, Args&&... args) {
  return Error(ErrorKind::kInternal, format, std::forward<Args>(args)...);
}

class Audit {
 public:
  Audit(object_store::ObjectStore& store, const env::Env& env, std::string table,
        const std::string& instance_id, const Expectations& expectations)
      : store_(store),
        env_(env),
        table_(std::move(table)),
        shard_(ShardId::FromName(instance_id)),
        manifests_(store, table_, shard_),
        log_(store, table_, shard_),
        logged_(expectations.Logged()) {}

  Status Run() {
    ARROW_RETURN_NOT_OK(Annotate(CheckManifests(), "manifests"));
    ARROW_RETURN_NOT_OK(Annotate(CheckLog(), "log"));
    return Annotate(CheckCursor(), "cursor");
  }

 private:
  Result<std::set<uint64_t>> Numbers(const std::string& prefix, std::string_view suffix) {
    ARROW_ASSIGN_OR_RAISE(const auto listing, store_.List(prefix, {}));
    std::set<uint64_t> numbers;
    for (const auto& object : listing.objects) {
      const auto number =
          memwal::ParseRev64(std::string_view(object.name).substr(prefix.size()), suffix);
      if (number) numbers.insert(*number);
    }
    return numbers;
  }

  static Status CheckDense(const std::set<uint64_t>& numbers, std::string_view what) {
    if (numbers.empty()) return Status::OK();
    if (*numbers.rbegin() - *numbers.begin() + 1 == numbers.size()) return Status::OK();
    return Violation("{} of {} to {} are there: {} only", what, *numbers.begin(), *numbers.rbegin(),
                     numbers.size());
  }

  Status CheckManifests() {
    ARROW_ASSIGN_OR_RAISE(const auto versions,
                          Numbers(memwal::ShardManifestPrefix(table_, shard_), ".binpb"));
    ARROW_RETURN_NOT_OK(CheckDense(versions, "versions"));
    for (const uint64_t version : versions) {
      ARROW_ASSIGN_OR_RAISE(auto manifest, manifests_.Read(ShardManifestVersion(version)));
      if (!manifest) return Violation("version {} vanished", version);
      if (newest_) ARROW_RETURN_NOT_OK(CheckSuccessor(*newest_, *manifest));
      newest_ = std::move(manifest);
    }
    return newest_ ? CheckGenerations() : Status::OK();
  }

  static Status CheckSuccessor(const memwal::ShardManifest& before,
                               const memwal::ShardManifest& after) {
    const bool falls =
        after.writer_epoch() < before.writer_epoch() ||
        after.replay_after_wal_entry_position() < before.replay_after_wal_entry_position() ||
        after.current_generation() < before.current_generation();
    if (falls) return Violation("version {} falls back behind its predecessor", after.version());
    return Status::OK();
  }

  Status CheckGenerations() {
    uint64_t last = 0;
    for (const auto& generation : newest_->sstables()) {
      const uint64_t number = generation.generation();
      if (number <= last || number >= newest_->current_generation())
        return Violation("version {} lists generation {} after {}, and {} is the next to come",
                         newest_->version(), number, last, newest_->current_generation());
      last = number;
    }
    return Status::OK();
  }

  Status CheckLog() {
    ARROW_ASSIGN_OR_RAISE(const auto positions,
                          Numbers(memwal::LogPrefix(table_, shard_), ".arrow"));
    const uint64_t cursor = newest_ ? newest_->replay_after_wal_entry_position() : 0;
    std::set<uint64_t> above(positions.upper_bound(cursor), positions.end());
    above.insert(cursor);
    ARROW_RETURN_NOT_OK(CheckDense(above, "entries from the cursor on"));
    std::map<uint64_t, Shown> entries;
    uint64_t epoch = 0;
    for (const uint64_t position : positions) {
      ARROW_ASSIGN_OR_RAISE(const auto entry, log_.Read(LogPosition(position)));
      if (!entry) return Violation("entry {} vanished", position);
      // Stands for the entries that a clean-up removed.
      if (entry->sentinel && position == 1 && entry->epoch == memwal::kGuardEpoch) continue;
      if (entry->epoch.value() < epoch)
        return Violation("entry {} has epoch {}, the one below it {}", position, entry->epoch,
                         epoch);
      epoch = entry->epoch.value();
      if (newest_ && epoch > newest_->writer_epoch())
        return Violation("entry {} has epoch {}, the newest claim {}", position, epoch,
                         newest_->writer_epoch());
      Collect(*entry, entries[position]);
    }
    return CheckEntries(entries, cursor);
  }

  static void Collect(const memwal::DecodedLogEntry& entry, Shown& rows) {
    for (const auto& batch : entry.batches) {
      const auto& ids = static_cast<const arrow::StringArray&>(*batch->column(0));
      const auto& values = static_cast<const arrow::Int64Array&>(*batch->column(1));
      for (int64_t row = 0; row < batch->num_rows(); ++row)
        rows[ids.GetString(row)] = values.Value(row);
    }
  }

  Status CheckEntries(const std::map<uint64_t, Shown>& entries, uint64_t cursor) const {
    for (const auto& append : logged_) {
      const auto entry = entries.find(append.position);
      if (entry == entries.end()) {
        if (append.position <= cursor) continue;
        return Violation("the entry {} of an acknowledged append is gone, the cursor is {}",
                         append.position, cursor);
      }
      for (const auto& [key, value] : *append.rows) {
        const auto row = entry->second.find(key);
        if (row == entry->second.end() || row->second < value)
          return Violation("{} = {} was acknowledged at entry {}, which does not hold it", key,
                           value, append.position);
      }
    }
    return Status::OK();
  }

  // What base and generations show.
  Result<Shown> ReadFlushed() {
    const lance::TableContext context{&store_, &env_};
    ARROW_ASSIGN_OR_RAISE(const auto base, lance::Table::Open(context, table_));
    ARROW_ASSIGN_OR_RAISE(auto stream, base->Scan({}));
    ARROW_ASSIGN_OR_RAISE(Shown flushed, ReadRows(*stream));
    ARROW_ASSIGN_OR_RAISE(const auto merged, memwal::MergedGenerations(*base));
    const auto watermark = merged.find(shard_);
    for (const auto& generation : newest_->sstables()) {
      const bool in_base =
          watermark != merged.end() && generation.generation() <= watermark->second.value();
      if (in_base) continue;
      ARROW_ASSIGN_OR_RAISE(
          const auto table,
          lance::Table::Open(context, memwal::ShardPrefix(table_, shard_) + generation.path()));
      ARROW_ASSIGN_OR_RAISE(stream, table->Scan({}));
      ARROW_ASSIGN_OR_RAISE(const Shown rows, ReadRows(*stream));
      for (const auto& [key, value] : rows) flushed[key] = value;
    }
    return flushed;
  }

  Status CheckCursor() {
    if (!newest_) {
      if (logged_.empty()) return Status::OK();
      return Violation("{} appends were acknowledged and there is no manifest", logged_.size());
    }
    ARROW_ASSIGN_OR_RAISE(const Shown flushed, ReadFlushed());
    const uint64_t cursor = newest_->replay_after_wal_entry_position();
    for (const auto& append : logged_) {
      if (append.position > cursor) continue;
      for (const auto& [key, value] : *append.rows) {
        const auto row = flushed.find(key);
        if (row == flushed.end() || row->second < value)
          return Violation(
              "it is at {} (manifest {}, {} generations, next {}; shown {}), but {} = {} of entry "
              "{} is in no generation",
              cursor, newest_->version(), newest_->sstables_size(), newest_->current_generation(),
              row == flushed.end() ? -1 : row->second, key, value, append.position);
      }
    }
    return Status::OK();
  }

  object_store::ObjectStore& store_;
  const env::Env& env_;
  const std::string table_;
  const ShardId shard_;
  const memwal::ShardManifestStore manifests_;
  memwal::ShardLog log_;
  const std::vector<Expectations::LoggedAppend> logged_;
  std::optional<memwal::ShardManifest> newest_;
};

}  // namespace

Result<Shown> ReadRows(lance::BatchStream& stream) {
  Shown rows;
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream.Next());
    if (batch == nullptr) return rows;
    const auto ids = batch->GetColumnByName("id");
    const auto values = batch->GetColumnByName("value");
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      const auto key = static_cast<const arrow::StringArray&>(*ids).GetString(row);
      const auto value = static_cast<const arrow::Int64Array&>(*values).Value(row);
      if (!rows.emplace(key, value).second) return Violation("{} is shown twice", key);
    }
  }
}

Status AuditShard(object_store::ObjectStore& store, const env::Env& env, const std::string& table,
                  const std::string& instance_id, const Expectations& expectations) {
  return Audit(store, env, table, instance_id, expectations).Run();
}

}  // namespace sarissa::simulation
