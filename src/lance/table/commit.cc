#include "lance/table/commit.h"
#include "lance/file/stable_bytes.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>

#include "base/sync_point.h"

namespace sarissa::lance {
namespace {

using pb::transaction::Transaction;

constexpr char kWriterLibrary[] = "sarissa";
constexpr char kWriterVersion[] = "0.1.0";
constexpr int kMaxPuts = 4;
constexpr int kMaxReads = 3;

std::span<const uint8_t> AsBytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string ManifestObject(const std::string& table, TableVersion version, ManifestNaming naming) {
  return NameInTable(table, "_versions/" + ManifestName(version, naming));
}

Result<Transaction> ReadTransactionFile(object_store::ObjectStore& store, const std::string& table,
                                        const std::string& name) {
  const std::string object = NameInTable(table, "_transactions/" + name);
  ARROW_ASSIGN_OR_RAISE(const auto bytes, store.Get(object));
  Transaction out;
  if (!out.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
    return Error(ErrorKind::kCorrupt, "transaction {} is not a valid message", object);
  }
  return out;
}

// What made `manifest`; kConflict when nothing tells, because then nothing can be rebased over it.
Result<Transaction> TransactionOf(object_store::ObjectStore& store, const std::string& table,
                                  const VersionedManifest& manifest) {
  if (manifest.loaded.transaction) return *manifest.loaded.transaction;
  const std::string& name = manifest.loaded.manifest.transaction_file();
  if (!name.empty()) {
    auto transaction = ReadTransactionFile(store, table, name);
    if (!Is(transaction.status(), ErrorKind::kNotFound)) return transaction;
  }
  return Error(ErrorKind::kConflict, "table '{}': version {} does not say what it changed", table,
               manifest.version);
}

// What a name holds, seen from the writer of transaction `uuid`.
enum class Holder { kOurs, kTheirs, kNobody };

Result<Holder> WhoHolds(object_store::ObjectStore& store, const std::string& object,
                        const std::string& uuid) {
  Status failure;
  for (int attempt = 0; attempt < kMaxReads; ++attempt) {
    auto bytes = store.Get(object);
    if (Is(bytes.status(), ErrorKind::kNotFound)) return Holder::kNobody;
    if (!bytes.ok()) {
      failure = bytes.status();
      continue;
    }
    // A manifest that does not parse is not ours: ours appear whole.
    const auto manifest = ParseManifest(object, **bytes);
    return manifest.ok() && manifest->transaction && manifest->transaction->uuid() == uuid
               ? Holder::kOurs
               : Holder::kTheirs;
  }
  return failure;
}

// True: `bytes` are the manifest `object`. False: another's are.
Result<bool> PutManifest(object_store::ObjectStore& store, const std::string& object,
                         const std::string& bytes, const std::string& uuid) {
  Status unknown;
  for (int attempt = 0; attempt < kMaxPuts; ++attempt) {
    SARISSA_SYNC_POINT("lance.commit.before_manifest");
    const Status put = store.Put(object, AsBytes(bytes), object_store::PutMode::kIfAbsent);
    SARISSA_SYNC_POINT("lance.commit.after_manifest");
    if (put.ok()) return true;
    // A taken name may be taken by us: by an earlier put, or one that the store itself repeated.
    if (!Is(put, ErrorKind::kAlreadyExists) && !Is(put, ErrorKind::kOutcomeUnknown)) {
      // A failure now says nothing about an earlier put that may still land.
      return unknown.ok() ? put : unknown;
    }
    const auto holder = WhoHolds(store, object, uuid);
    if (!holder.ok()) {
      return Error(ErrorKind::kOutcomeUnknown, "manifest {}: {}; reading it back failed: {}",
                   object, put.message(), holder.status().message());
    }
    const bool taken = Is(put, ErrorKind::kAlreadyExists);
    // Bytes that can be read may still be lost; a store says "taken" only of what is durable.
    if (*holder == Holder::kOurs && taken) return true;
    if (*holder == Holder::kTheirs) return false;
    // Taken, and gone before it could be read: not ours, which nobody deletes so early.
    if (taken && unknown.ok()) return false;
    unknown = Error(ErrorKind::kOutcomeUnknown, "manifest {}: {}", object, put.message());
  }
  return unknown;
}

// The newest version, at least `base`, and at least what `floor` says is taken: listings may be
// stale.
Result<TableTip> TipAtLeast(object_store::ObjectStore& store, const std::string& table,
                            const VersionedManifest& base, TableVersion floor) {
  ARROW_ASSIGN_OR_RAISE(TableTip tip, FindTip(store, table));
  tip.taken = std::max(tip.taken, floor);
  if (tip.newest.version < base.version) tip.newest = base;
  for (TableVersion version = tip.taken; version > tip.newest.version;
       version = TableVersion(version.value() - 1)) {
    auto manifest = ReadVersion(store, table, version);
    // Torn or gone.
    if (Is(manifest.status(), ErrorKind::kCorrupt) || Is(manifest.status(), ErrorKind::kNotFound))
      continue;
    ARROW_RETURN_NOT_OK(manifest.status());
    tip.newest = *std::move(manifest);
    break;
  }
  return tip;
}

// Checks `change` against every version in (checked, newest].
Status CheckVersions(object_store::ObjectStore& store, const std::string& table,
                     TableVersion checked, const VersionedManifest& newest, TableChange& change) {
  for (TableVersion version = checked.Next(); version <= newest.version; version = version.Next()) {
    if (version == newest.version) {
      ARROW_ASSIGN_OR_RAISE(const Transaction theirs, TransactionOf(store, table, newest));
      return change.CheckOver(theirs, version);
    }
    const std::string object = ManifestObject(table, version, newest.naming);
    auto bytes = store.Get(object);
    if (Is(bytes.status(), ErrorKind::kNotFound)) {
      return Error(ErrorKind::kConflict,
                   "table '{}': version {} is gone, so what it changed is unknown", table, version);
    }
    ARROW_RETURN_NOT_OK(bytes.status());
    auto loaded = ParseManifest(object, **bytes);
    if (Is(loaded.status(), ErrorKind::kCorrupt) && IsTornManifest(**bytes)) continue;
    ARROW_RETURN_NOT_OK(loaded.status());
    ARROW_ASSIGN_OR_RAISE(
        const Transaction theirs,
        TransactionOf(store, table, {version, newest.naming, *std::move(loaded)}));
    ARROW_RETURN_NOT_OK(change.CheckOver(theirs, version));
  }
  return Status::OK();
}

}  // namespace

std::optional<uint64_t> MaxFragmentId(const pb::table::Manifest& manifest) {
  std::optional<uint64_t> out;
  if (manifest.has_max_fragment_id()) out = manifest.max_fragment_id();
  for (const auto& fragment : manifest.fragments()) out = std::max(out.value_or(0), fragment.id());
  return out;
}

void StampManifest(const env::Env& env, pb::table::Manifest& manifest) {
  const auto micros = env.clock->WallNow().time_since_epoch().count();
  manifest.mutable_timestamp()->set_seconds(micros / 1'000'000);
  manifest.mutable_timestamp()->set_nanos(static_cast<int32_t>(micros % 1'000'000 * 1000));
  manifest.mutable_writer_version()->set_library(kWriterLibrary);
  manifest.mutable_writer_version()->set_version(kWriterVersion);
  manifest.clear_tag();
  if (const auto max = MaxFragmentId(manifest))
    manifest.set_max_fragment_id(static_cast<uint32_t>(*max));

  const bool deletions =
      std::any_of(manifest.fragments().begin(), manifest.fragments().end(),
                  [](const auto& fragment) { return fragment.has_deletion_file(); });
  constexpr uint64_t kKept = kFlagStableRowIds | kFlagV2Files | kFlagNoTransactionFiles;
  const uint64_t computed = deletions ? kFlagDeletionFiles : 0;
  manifest.set_reader_feature_flags((manifest.reader_feature_flags() & kKept) | computed);
  manifest.set_writer_feature_flags((manifest.writer_feature_flags() & kKept) | computed |
                                    (manifest.config().empty() ? 0 : kFlagTableConfig));
}

std::string TransactionFileName(const Transaction& transaction) {
  return fmt::format("{}-{}.txn", transaction.read_version(), transaction.uuid());
}

Status WriteTransactionFile(object_store::ObjectStore& store, const std::string& table,
                            const std::string& name, const Transaction& transaction) {
  const std::string object = NameInTable(table, "_transactions/" + name);
  const std::string bytes = StableBytes(transaction);
  Status put = store.Put(object, AsBytes(bytes), object_store::PutMode::kOverwrite);
  // The name is ours alone, so that a put may simply be repeated.
  if (Is(put, ErrorKind::kOutcomeUnknown))
    put = store.Put(object, AsBytes(bytes), object_store::PutMode::kOverwrite);
  return put;
}

void WriteVersionHint(object_store::ObjectStore& store, const std::string& table,
                      TableVersion version) {
  const std::string bytes = fmt::format("{{\"version\":{}}}", version);
  const Status ignored = store.Put(NameInTable(table, "_versions/latest_version_hint.json"),
                                   AsBytes(bytes), object_store::PutMode::kOverwrite);
  static_cast<void>(ignored);
}

Result<VersionedManifest> CommitFirst(const TableContext& context, const std::string& table,
                                      LoadedManifest manifest) {
  const TableVersion version(1);
  manifest.manifest.set_version(version.value());
  StampManifest(*context.env, manifest.manifest);
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, SerializeManifest(manifest));
  const std::string object = ManifestObject(table, version, ManifestNaming::kV2);
  ARROW_ASSIGN_OR_RAISE(const bool ours,
                        PutManifest(*context.store, object, bytes, manifest.transaction->uuid()));
  if (!ours) return Error(ErrorKind::kAlreadyExists, "there is a table at '{}'", table);
  return VersionedManifest{version, ManifestNaming::kV2, std::move(manifest)};
}

Result<VersionedManifest> Commit(const TableContext& context, const std::string& table,
                                 const VersionedManifest& base, TableChange& change) {
  object_store::ObjectStore& store = *context.store;
  const std::string uuid = context.env->random->NextUuid().ToString();
  TableVersion checked = base.version;
  TableVersion floor = base.version;
  std::string transaction_written;
  for (int attempt = 0; attempt <= kMaxRebases; ++attempt) {
    ARROW_ASSIGN_OR_RAISE(const TableTip tip, TipAtLeast(store, table, base, floor));
    ARROW_RETURN_NOT_OK(CheckFeatureFlags(
        tip.newest.loaded.manifest.writer_feature_flags(),
        fmt::format("table '{}' version {} (to write)", table, tip.newest.version)));
    ARROW_RETURN_NOT_OK(CheckVersions(store, table, checked, tip.newest, change));
    checked = std::max(checked, tip.newest.version);

    LoadedManifest next = tip.newest.loaded;
    Transaction transaction;
    transaction.set_read_version(tip.newest.version.value());
    transaction.set_uuid(uuid);
    ARROW_RETURN_NOT_OK(change.Apply(tip.newest, next, transaction));
    const TableVersion version = tip.taken.Next();
    next.manifest.set_version(version.value());
    next.manifest.clear_transaction_file();
    next.transaction = transaction;
    StampManifest(*context.env, next.manifest);
    if ((next.manifest.writer_feature_flags() & kFlagNoTransactionFiles) == 0) {
      // Named after the base, so that a rebased commit leaves one file, not one per attempt.
      const std::string name = fmt::format("{}-{}.txn", base.version, uuid);
      next.manifest.set_transaction_file(name);
      if (std::string bytes = StableBytes(transaction); bytes != transaction_written) {
        ARROW_RETURN_NOT_OK(WriteTransactionFile(store, table, name, transaction));
        transaction_written = std::move(bytes);
      }
    }
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, SerializeManifest(next));
    const std::string object = ManifestObject(table, version, tip.newest.naming);
    ARROW_ASSIGN_OR_RAISE(const bool ours, PutManifest(store, object, bytes, uuid));
    if (ours) {
      WriteVersionHint(store, table, version);
      return VersionedManifest{version, tip.newest.naming, std::move(next)};
    }
    floor = version;
  }
  return Error(ErrorKind::kConflict,
               "table '{}': {} attempts to commit on top of version {} lost to other writers",
               table, kMaxRebases + 1, base.version);
}

}  // namespace sarissa::lance
