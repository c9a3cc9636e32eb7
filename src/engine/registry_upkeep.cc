// Keeps the registry's table small: fragments are rewritten in tiers, old versions go.
//
// Both run between two commits of this process, so a group may wait for them once in a while; both
// give way to commits of other processes and are tried again later.
#include <algorithm>
#include <charconv>
#include <set>

#include "engine/registry.h"
#include "lance/table/deletion_vector.h"
#include "lance/table/manifest.h"

namespace sarissa::engine {
namespace {

// As many fragments of one size class are merged into one of the next.
constexpr size_t kFragmentsPerTier = 32;
// Commits between two removals of old versions, and versions that one removal looks at.
constexpr uint64_t kCommitsPerCleanUp = 64;
constexpr uint64_t kVersionsPerCleanUp = 256;
// How long a version stays after its successor came. Readers look again long before
// (Registry::Refresh counts on it), and nobody pins a version of the registry.
constexpr auto kRetain = std::chrono::seconds(60);

int TierOf(uint64_t rows) {
  int tier = 0;
  for (; rows >= kFragmentsPerTier; rows /= kFragmentsPerTier) ++tier;
  return tier;
}

// The names, in the table, of what `manifest` needs.
std::set<std::string> FilesOf(const std::string& table, const pb::table::Manifest& manifest) {
  std::set<std::string> files;
  for (const auto& fragment : manifest.fragments()) {
    for (const auto& file : fragment.files()) files.insert(table + "/data/" + file.path());
    if (!fragment.has_deletion_file()) continue;
    files.insert(lance::DeletionFileName(table, fragment.id(), fragment.deletion_file()));
  }
  if (!manifest.transaction_file().empty())
    files.insert(table + "/_transactions/" + manifest.transaction_file());
  return files;
}

// Ascending. Only versions under the naming that we write.
Result<std::vector<TableVersion>> VersionsOf(object_store::ObjectStore& store,
                                             const std::string& table) {
  const std::string prefix = table + "/_versions/";
  ARROW_ASSIGN_OR_RAISE(const auto listing, store.List(prefix, {}));
  std::vector<TableVersion> versions;
  for (const auto& object : listing.objects) {
    const std::string_view name = std::string_view(object.name).substr(prefix.size());
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc()) continue;
    const TableVersion version(UINT64_MAX - number);
    if (name == lance::ManifestName(version)) versions.push_back(version);
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

}  // namespace

// Nothing depends on it: what fails is tried again after a later commit.
void Registry::Upkeep() {
  (void)MergeSmallFragments();
  if (commits_ % kCommitsPerCleanUp == 0) (void)RemoveOldVersions();
}

Status Registry::MergeSmallFragments() {
  std::shared_ptr<lance::Table> table;
  {
    const std::scoped_lock lock(mutex_);
    table = table_;
  }
  std::map<int, std::set<uint64_t>> tiers;
  for (const auto& fragment : table->manifest().fragments())
    tiers[TierOf(fragment.physical_rows())].insert(fragment.id());
  const auto full = std::find_if(tiers.begin(), tiers.end(), [](const auto& tier) {
    return tier.second.size() > kFragmentsPerTier;
  });
  if (full == tiers.end()) return Status::OK();

  std::vector<TableInfo> infos;
  lance::Upsert upsert;
  {
    const std::scoped_lock lock(mutex_);
    if (table_ != table) return Status::OK();
    for (const auto& [name, row] : rows_) {
      if (!full->second.contains(row.address >> 32)) continue;
      infos.push_back(InfoOf(name, row));
      upsert.deleted.push_back(row.address);
    }
  }
  std::vector<const TableInfo*> rewritten;
  for (const TableInfo& info : infos) rewritten.push_back(&info);
  ARROW_ASSIGN_OR_RAISE(lance::NewFragment fragment, WriteRows(*table, rewritten));
  upsert.appended.push_back(std::move(fragment));
  ARROW_ASSIGN_OR_RAISE(auto committed, table->CommitUpsert(std::move(upsert)));

  const uint64_t id = committed->manifest().fragments().rbegin()->id();
  const std::scoped_lock lock(mutex_);
  // Otherwise the next look at the disk loads what is there.
  if (table_ != table || committed->version() != table->version().Next()) return Status::OK();
  table_ = std::move(committed);
  uint64_t offset = 0;
  for (auto& [name, row] : rows_) {
    if (full->second.contains(row.address >> 32)) row.address = id << 32 | offset++;
  }
  return Status::OK();
}

// Ascending, each manifest before the files that only it and older ones name: a crash leaves files
// that nobody names, never a manifest that names missing ones.
Status Registry::RemoveOldVersions() {
  std::shared_ptr<lance::Table> table;
  {
    const std::scoped_lock lock(mutex_);
    table = table_;
  }
  object_store::ObjectStore& store = *context_.store;
  ARROW_ASSIGN_OR_RAISE(const auto versions, VersionsOf(store, table->path()));
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      context_.env->clock->WallNow().time_since_epoch());
  for (size_t i = 0; i + 1 < std::min<size_t>(versions.size(), kVersionsPerCleanUp); ++i) {
    ARROW_ASSIGN_OR_RAISE(const auto old, lance::ReadManifest(store, table->path(), versions[i]));
    ARROW_ASSIGN_OR_RAISE(const auto next,
                          lance::ReadManifest(store, table->path(), versions[i + 1]));
    const auto kept_until = std::chrono::seconds(next.manifest.timestamp().seconds()) + kRetain;
    if (kept_until > now || versions[i + 1] > table->version()) return Status::OK();
    std::set<std::string> gone = FilesOf(table->path(), old.manifest);
    for (const std::string& kept : FilesOf(table->path(), next.manifest)) gone.erase(kept);
    ARROW_RETURN_NOT_OK(
        store.Delete(table->path() + "/_versions/" + lance::ManifestName(versions[i])));
    for (const std::string& file : gone) ARROW_RETURN_NOT_OK(store.Delete(file));
  }
  return Status::OK();
}

}  // namespace sarissa::engine
