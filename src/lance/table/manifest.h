// Lance table manifests: `_versions/<20 digits>.manifest`, name = 2^64-1 - version.
//
// File: [u32 len + IndexSection] [u32 len + Transaction] u32 len + Manifest, then u64 position of
// the Manifest's length word, u16 0, u16 2, "LANC". Version 1 is 18446744073709551614.manifest; the
// lexically first is the newest; gaps are legal; foreign files are ignored; the hint file is only a
// hint. V1 naming (`1.manifest`) is read. The position of the inline transaction is field 23
// (current writers) and field 21 (older ones): both are written and read. Pure functions, or
// functions that block on the store. Thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/strong_type.h"
#include "object_store/object_store.h"
#include "proto/lance_table.pb.h"
#include "proto/lance_transaction.pb.h"

namespace sarissa::lance {

struct LoadedManifest {
  pb::table::Manifest manifest;
  pb::table::IndexSection indices;
  // The inline transaction, if the file carries one.
  std::optional<pb::transaction::Transaction> transaction;
};

// How a table names its manifests; a table keeps its way for good.
enum class ManifestNaming { kV2, kV1 };

// A manifest with where it was found.
struct VersionedManifest {
  TableVersion version;
  ManifestNaming naming = ManifestNaming::kV2;
  LoadedManifest loaded;
};

// The newest readable version of a table, and the highest version whose name is taken (more than
// the former when the newest manifests are torn: a commit must go above them).
struct TableTip {
  VersionedManifest newest;
  TableVersion taken;
};

// Feature flags (reader = field 9, writer = field 10).
inline constexpr uint64_t kFlagDeletionFiles = 1;
inline constexpr uint64_t kFlagStableRowIds = 2;
inline constexpr uint64_t kFlagV2Files = 4;  // older writers
inline constexpr uint64_t kFlagTableConfig = 8;
inline constexpr uint64_t kFlagNoTransactionFiles = 32;
inline constexpr uint64_t kSupportedFlags = kFlagDeletionFiles | kFlagStableRowIds | kFlagV2Files |
                                            kFlagTableConfig | kFlagNoTransactionFiles;

// kUnsupported naming the bits of `flags` that this project does not know. `what` names whose flags
// they are.
Status CheckFeatureFlags(uint64_t flags, const std::string& what);

// The fragment with that id, or null.
const pb::table::DataFragment* FindFragment(const pb::table::Manifest& manifest, uint64_t id);

// "<table>/<name>"; `name` alone for a table at the store's root (an empty path).
std::string NameInTable(const std::string& table, const std::string& name);
// "18446744073709551614.manifest"
std::string ManifestName(TableVersion version, ManifestNaming naming = ManifestNaming::kV2);

// kCorrupt names the object and what is wrong; kUnsupported names feature flags that we do not
// know.
Result<LoadedManifest> ParseManifest(const std::string& name, const arrow::Buffer& bytes);
Result<std::string> SerializeManifest(LoadedManifest manifest);
// True for a file that was cut off (empty, all zeros, or its length words lead past its end) rather
// than damaged: a writer without atomic puts died in the middle of it.
bool IsTornManifest(const arrow::Buffer& bytes);

// Newest version under `<table>/_versions/`. kNotFound when the table does not exist. A zero-byte
// or torn newest manifest (another writer's crash) is skipped in favour of the next older one when
// it cannot have been acknowledged.
Result<TableVersion> FindNewestVersion(object_store::ObjectStore& store, const std::string& table);
Result<TableTip> FindTip(object_store::ObjectStore& store, const std::string& table);
Result<LoadedManifest> ReadManifest(object_store::ObjectStore& store, const std::string& table,
                                    TableVersion version);
// The same with its naming. kCorrupt for a torn one.
Result<VersionedManifest> ReadVersion(object_store::ObjectStore& store, const std::string& table,
                                      TableVersion version);

}  // namespace sarissa::lance
