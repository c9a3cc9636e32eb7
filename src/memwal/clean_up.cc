#include "memwal/clean_up.h"

#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <vector>

#include "base/sync_point.h"
#include "memwal/claimed_epochs.h"
#include "memwal/fence_holds.h"
#include "memwal/names.h"
#include "memwal/shard_log.h"
#include "memwal/shard_manifest.h"

namespace sarissa::memwal {
namespace {

constexpr uint64_t kHeadBytes = 64 << 10;
constexpr int kHintTries = 4;
constexpr LogPosition kGuardPosition{1};
constexpr size_t kAttemptDigits = 8;
constexpr std::string_view kGenerationMark = "_gen_";
constexpr std::string_view kHintOpen = "{\"version\":";

std::optional<uint64_t> ParseDecimal(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The generation of a folder name as GenerationFolder makes them.
std::optional<Generation> ParseGenerationFolder(std::string_view folder) {
  constexpr size_t kPrefix = kAttemptDigits + kGenerationMark.size();
  if (folder.size() <= kPrefix ||
      folder.substr(kAttemptDigits, kGenerationMark.size()) != kGenerationMark)
    return std::nullopt;
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!std::all_of(folder.begin(), folder.begin() + kAttemptDigits, is_hex)) return std::nullopt;
  const auto number = ParseDecimal(folder.substr(kPrefix));
  if (!number) return std::nullopt;
  return Generation(*number);
}

std::optional<uint64_t> ParseHint(const arrow::Buffer& bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                        static_cast<size_t>(bytes.size()));
  if (!text.starts_with(kHintOpen) || !text.ends_with('}')) return std::nullopt;
  return ParseDecimal(text.substr(kHintOpen.size(), text.size() - kHintOpen.size() - 1));
}

// Epoch and kind from the schema message alone; the rows may be large.
LogMark ParseLogMark(LogPosition position, const std::shared_ptr<arrow::Buffer>& head) {
  LogMark mark;
  mark.position = position;
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  const auto reader = arrow::ipc::RecordBatchStreamReader::Open(
      std::make_shared<arrow::io::BufferReader>(head), options);
  if (!reader.ok() || (*reader)->schema()->metadata() == nullptr) return mark;
  const auto& metadata = (*reader)->schema()->metadata();
  const auto epoch = metadata->Get("writer_epoch");
  const auto number = epoch.ok() ? ParseDecimal(*epoch) : std::nullopt;
  if (!number || *number == 0) return mark;
  mark.readable = true;
  mark.epoch = Epoch(*number);
  const auto sentinel = metadata->Get("fence_sentinel");
  mark.sentinel = sentinel.ok() && *sentinel == "true";
  return mark;
}

class CleanUp {
 public:
  CleanUp(const CleanUpOptions& options, CleanUpState& state, CleanUpReport& report)
      : options_(options),
        state_(state),
        report_(report),
        store_(*options.store),
        log_(store_, options.table, options.shard),
        manifests_(store_, options.table, options.shard) {}

  Status Run() {
    ARROW_ASSIGN_OR_RAISE(const bool exists, ReadNewest());
    report_.complete = true;
    if (!exists) return Status::OK();
    ARROW_RETURN_NOT_OK(RemoveLogEntries());
    if (report_.complete && guarded_) ARROW_RETURN_NOT_OK(RemoveManifests());
    if (report_.complete) ARROW_RETURN_NOT_OK(RemoveFolders());
    return Status::OK();
  }

 private:
  // Sets newest_; false when the shard has no manifest.
  Result<bool> ReadNewest() {
    ARROW_ASSIGN_OR_RAISE(const NewestShardManifest found, manifests_.FindNewest(known_));
    const uint64_t version = found.manifest ? found.manifest->version() : 0;
    if (found.taken.value() != version) {
      return Error(ErrorKind::kCorrupt, "{} holds no manifest; the shard is not cleaned up",
                   ManifestName(found.taken.value()));
    }
    if (!found.manifest) return false;
    // What it does not need any more, the version below may.
    if (newest_.version() != version) ARROW_RETURN_NOT_OK(manifests_.CheckDurable(*found.manifest));
    newest_ = *found.manifest;
    known_ = found.taken;
    return true;
  }

  // False when this call has removed what it may.
  bool MayRemove() {
    if (options_.max_removals == 0 || report_.removed() < options_.max_removals) return true;
    report_.complete = false;
    return false;
  }

  Status Remove(const std::string& name, uint64_t& count) {
    SARISSA_SYNC_POINT("cleanup.before_delete");
    ARROW_RETURN_NOT_OK(name.ends_with('/') ? store_.DeletePrefix(name) : store_.Delete(name));
    ++count;
    SARISSA_SYNC_POINT("cleanup.after_delete");
    return Status::OK();
  }

  std::string ManifestName(uint64_t version) const {
    return ShardManifestName(options_.table, options_.shard, ShardManifestVersion(version));
  }

  // --- log

  Status RemoveLogEntries() {
    ARROW_ASSIGN_OR_RAISE(std::vector<LogPosition> entries, log_.List());
    if (entries.empty()) return Status::OK();
    entries.pop_back();  // the tip
    const LogPosition end(std::min(newest_.replay_after_wal_entry_position(),
                                   newest_.wal_entry_position_last_seen()));
    while (!entries.empty() && entries.back() > end) entries.pop_back();
    if (entries.empty()) return Status::OK();
    ARROW_RETURN_NOT_OK(PutGuard());
    if (!guarded_) return Status::OK();
    std::erase(entries, kGuardPosition);
    ARROW_ASSIGN_OR_RAISE(const std::set<LogPosition> held, FindHeldEntries(entries));
    report_.log_entries_held = held.size();
    for (const LogPosition position : entries) {
      if (held.contains(position)) continue;
      if (!MayRemove()) return Status::OK();
      ARROW_RETURN_NOT_OK(Remove(log_.NameOf(position), report_.log_entries_removed));
    }
    return Status::OK();
  }

  // Sets guarded_, unless this call has removed what it may.
  Status PutGuard() {
    ARROW_ASSIGN_OR_RAISE(const auto mark, ReadLogMark(kGuardPosition));
    guarded_ = mark && mark->readable && mark->sentinel && mark->epoch == kGuardEpoch;
    if (guarded_ || !MayRemove()) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(const std::string guard, EncodeSentinel(kGuardEpoch));
    SARISSA_SYNC_POINT("cleanup.before_delete");
    ARROW_RETURN_NOT_OK(store_.Put(log_.NameOf(kGuardPosition),
                                   {reinterpret_cast<const uint8_t*>(guard.data()), guard.size()},
                                   object_store::PutMode::kOverwrite));
    if (mark) ++report_.log_entries_removed;
    guarded_ = true;
    SARISSA_SYNC_POINT("cleanup.after_delete");
    return Status::OK();
  }

  Result<std::set<LogPosition>> FindHeldEntries(const std::vector<LogPosition>& entries) {
    const std::vector<EpochRange> foreign = ForeignEpochs(newest_);
    if (foreign.empty() || entries.empty() || options_.adopt_by_force) {
      return std::set<LogPosition>();
    }
    std::vector<LogMark> marks;
    for (const LogPosition position : entries) {
      ARROW_ASSIGN_OR_RAISE(const auto mark, ReadLogMark(position));
      if (mark) marks.push_back(*mark);
    }
    ARROW_ASSIGN_OR_RAISE(const ReplayFloors floors, ReadReplayFloors(foreign.front().first));
    return HeldEntries(marks, foreign, floors);
  }

  // Nothing when the entry is gone.
  Result<std::optional<LogMark>> ReadLogMark(LogPosition position) {
    const auto reader = store_.Open(log_.NameOf(position));
    if (Is(reader.status(), ErrorKind::kNotFound)) return std::optional<LogMark>();
    ARROW_RETURN_NOT_OK(reader.status());
    const uint64_t size = (*reader)->size();
    for (uint64_t bytes = std::min(size, kHeadBytes);; bytes = size) {
      ARROW_ASSIGN_OR_RAISE(const auto head, (*reader)->ReadRange(0, bytes));
      const LogMark mark = ParseLogMark(position, head);
      if (mark.readable || bytes == size) return std::optional<LogMark>(mark);
    }
  }

  // From the newest manifest down, as far as they reach and are needed. The first one met of an
  // epoch is its last.
  Result<ReplayFloors> ReadReplayFloors(uint64_t lowest_epoch) {
    ReplayFloors floors;
    for (uint64_t version = newest_.version(); version > 0; --version) {
      const auto manifest = manifests_.Read(ShardManifestVersion(version));
      // Damaged, or of zero bytes: what lies below it is not known for sure to precede it.
      if (Is(manifest.status(), ErrorKind::kCorrupt)) break;
      ARROW_RETURN_NOT_OK(manifest.status());
      if (!manifest->has_value()) break;
      const Epoch epoch((*manifest)->writer_epoch());
      floors.emplace(epoch, LogPosition((*manifest)->replay_after_wal_entry_position()));
      if (epoch.value() < lowest_epoch) break;
    }
    return floors;
  }

  // --- manifests

  Status RemoveManifests() {
    const std::string prefix = ShardManifestPrefix(options_.table, options_.shard);
    ARROW_ASSIGN_OR_RAISE(const object_store::Listing listing, store_.List(prefix, {}));
    std::set<uint64_t> present;
    for (const auto& object : listing.objects) {
      const auto version =
          ParseRev64(std::string_view(object.name).substr(prefix.size()), ".binpb");
      if (version) present.insert(*version);
    }
    if (newest_.version() <= kManifestsKept) return Status::OK();
    const uint64_t keep = newest_.version() - kManifestsKept + 1;
    for (uint64_t version = keep; version <= newest_.version(); ++version) {
      if (present.contains(version)) continue;
      report_.manifest_gap = true;
      return WriteHint(newest_.version());
    }
    for (const uint64_t version : present) {
      if (version >= keep || !MayRemove()) break;
      ARROW_RETURN_NOT_OK(WriteHint(keep));
      ARROW_RETURN_NOT_OK(Remove(ManifestName(version), report_.manifests_removed));
    }
    return Status::OK();
  }

  // On return the hint on disk is durable and names a version from `least` on that exists.
  Status WriteHint(uint64_t least) {
    const std::string name = ShardManifestHintName(options_.table, options_.shard);
    for (int tries = 0; tries < kHintTries; ++tries) {
      ARROW_ASSIGN_OR_RAISE(const bool exists, ReadNewest());
      if (!exists) {
        return Error(ErrorKind::kNotFound, "shard {} of {} has no manifest any more",
                     options_.shard.ToString(), options_.table);
      }
      const std::string hint = fmt::format("{}{}}}", kHintOpen, newest_.version());
      ARROW_RETURN_NOT_OK(store_.Put(name,
                                     {reinterpret_cast<const uint8_t*>(hint.data()), hint.size()},
                                     object_store::PutMode::kOverwrite));
      ++report_.hints_written;
      const auto stored = store_.Get(name);
      if (!stored.ok() && !Is(stored.status(), ErrorKind::kNotFound)) return stored.status();
      const auto version = stored.ok() ? ParseHint(**stored) : std::nullopt;
      if (!version || *version < least) continue;
      if (*version <= newest_.version()) return Status::OK();
      // A writer went on meanwhile.
      ARROW_ASSIGN_OR_RAISE(const bool real, manifests_.Exists(ShardManifestVersion(*version)));
      if (real) return Status::OK();
    }
    return Error(ErrorKind::kConflict, "{}: somebody else keeps writing it; no manifest is removed",
                 name);
  }

  // --- generations

  Status RemoveFolders() {
    const std::string prefix = ShardPrefix(options_.table, options_.shard);
    ARROW_ASSIGN_OR_RAISE(const object_store::Listing listing, store_.List(prefix, {}));
    // Read after the listing: a folder that was listed was made by an epoch up to the stored one.
    ARROW_ASSIGN_OR_RAISE(const bool exists, ReadNewest());
    if (!exists) return Status::OK();
    std::set<std::string> listed;
    for (const std::string& name : listing.folders) {
      std::string folder = name.substr(prefix.size());
      folder.pop_back();
      const auto generation = ParseGenerationFolder(folder);
      if (!generation) continue;
      listed.insert(folder);
      if (!MayRemove()) continue;
      ARROW_RETURN_NOT_OK(RemoveFolder(folder, *generation));
    }
    std::erase_if(state_.unnamed, [&](const auto& entry) { return !listed.contains(entry.first); });
    return Status::OK();
  }

  Status RemoveFolder(const std::string& folder, Generation generation) {
    if (IsNamed(folder)) {
      state_.unnamed.erase(folder);
      return Status::OK();
    }
    const env::MonotonicTime now = options_.clock->Now();
    const auto seen =
        state_.unnamed
            .try_emplace(folder, CleanUpState::FirstSeen{now, Epoch(newest_.writer_epoch())})
            .first->second;
    const bool passed = generation.value() < newest_.current_generation();
    const bool cannot_commit = passed || newest_.writer_epoch() > seen.epoch.value();
    if (now - seen.time < options_.retention || !cannot_commit) {
      ++report_.folders_waiting;
      return Status::OK();
    }
    if (options_.in_use && options_.in_use(folder)) {
      ++report_.folders_in_use;
      return Status::OK();
    }
    ARROW_ASSIGN_OR_RAISE(const bool exists, ReadNewest());
    if (!exists || IsNamed(folder)) return Status::OK();
    const bool drained = passed && generation <= options_.merged;
    ARROW_RETURN_NOT_OK(Remove(ShardPrefix(options_.table, options_.shard) + folder + "/",
                               drained ? report_.drained_removed : report_.orphans_removed));
    state_.unnamed.erase(folder);
    return Status::OK();
  }

  bool IsNamed(const std::string& folder) const {
    return std::any_of(newest_.sstables().begin(), newest_.sstables().end(),
                       [&](const auto& generation) { return generation.path() == folder; });
  }

  const CleanUpOptions& options_;
  CleanUpState& state_;
  CleanUpReport& report_;
  object_store::ObjectStore& store_;
  ShardLog log_;
  ShardManifestStore manifests_;
  bool guarded_ = false;
  ShardManifestVersion known_;
  ShardManifest newest_;
};

}  // namespace

Status CleanUpShard(const CleanUpOptions& options, CleanUpState& state, CleanUpReport& report) {
  report = CleanUpReport();
  return CleanUp(options, state, report).Run();
}

}  // namespace sarissa::memwal
