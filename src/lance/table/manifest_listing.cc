// Finding manifests by name: the part of manifest.h that talks to the store.
#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "lance/table/manifest.h"

namespace sarissa::lance {
namespace {

std::string VersionsPrefix(const std::string& table) {
  return NameInTable(table, "_versions/");
}

constexpr std::string_view kSuffix = ".manifest";
constexpr size_t kV2Digits = 20;
// Every V2 name of a version below 7 * 10^10 starts with this, and few other names sort after it.
constexpr std::string_view kV2Start = "18446744";
constexpr uint64_t kPage = 8;
constexpr int kAttempts = 4;

struct ParsedName {
  ManifestNaming naming;
  TableVersion version;
};

// Nothing for foreign files.
std::optional<ParsedName> ParseName(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view digits = name.substr(0, name.size() - kSuffix.size());
  if (digits.empty() || digits.size() > kV2Digits) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (digits.size() == kV2Digits) {
    return ParsedName{ManifestNaming::kV2,
                      TableVersion(std::numeric_limits<uint64_t>::max() - number)};
  }
  return ParsedName{ManifestNaming::kV1, TableVersion(number)};
}

Result<std::shared_ptr<arrow::Buffer>> GetManifest(object_store::ObjectStore& store,
                                                   const std::string& table,
                                                   const ParsedName& name) {
  return store.Get(VersionsPrefix(table) + ManifestName(name.version, name.naming));
}

Result<VersionedManifest> Parse(const std::string& table, const ParsedName& name,
                                const arrow::Buffer& bytes) {
  const std::string path = VersionsPrefix(table) + ManifestName(name.version, name.naming);
  ARROW_ASSIGN_OR_RAISE(LoadedManifest loaded, ParseManifest(path, bytes));
  if (loaded.manifest.version() != name.version.value()) {
    return Error(ErrorKind::kCorrupt, "manifest {}: the name says version {}, the content {}", path,
                 name.version, loaded.manifest.version());
  }
  return VersionedManifest{name.version, name.naming, std::move(loaded)};
}

// The names of one naming, newest first, page by page.
class NewestFirst {
 public:
  NewestFirst(object_store::ObjectStore& store, const std::string& table)
      : store_(store),
        prefix_(VersionsPrefix(table)),
        start_after_(prefix_ + std::string(kV2Start)) {}

  Result<std::optional<ParsedName>> Next() {
    while (next_ == page_.size()) {
      if (done_) return std::nullopt;
      page_.clear();
      next_ = 0;
      ARROW_RETURN_NOT_OK(v1_ ? ListV1() : ListV2());
    }
    return page_[next_++];
  }

 private:
  Status ListV2() {
    object_store::ListOptions options;
    options.start_after = start_after_;
    options.limit = kPage;
    ARROW_ASSIGN_OR_RAISE(const auto listing, store_.List(prefix_, options));
    for (const auto& object : listing.objects) {
      const auto name = ParseName(std::string_view(object.name).substr(prefix_.size()));
      if (name && name->naming == ManifestNaming::kV2) page_.push_back(*name);
    }
    any_v2_ = any_v2_ || !page_.empty();
    if (listing.objects.size() + listing.folders.size() >= kPage) {
      if (!listing.objects.empty())
        start_after_ = std::max(start_after_, listing.objects.back().name);
      if (!listing.folders.empty()) start_after_ = std::max(start_after_, listing.folders.back());
      return Status::OK();
    }
    if (any_v2_) {
      done_ = true;
    } else {
      v1_ = true;
    }
    return Status::OK();
  }

  Status ListV1() {
    ARROW_ASSIGN_OR_RAISE(const auto listing, store_.List(prefix_, {}));
    for (const auto& object : listing.objects) {
      const auto name = ParseName(std::string_view(object.name).substr(prefix_.size()));
      if (name && name->naming == ManifestNaming::kV1) page_.push_back(*name);
    }
    std::sort(page_.begin(), page_.end(),
              [](const ParsedName& a, const ParsedName& b) { return a.version > b.version; });
    done_ = true;
    return Status::OK();
  }

  object_store::ObjectStore& store_;
  const std::string prefix_;
  std::string start_after_;
  std::vector<ParsedName> page_;
  size_t next_ = 0;
  bool any_v2_ = false;
  bool v1_ = false;
  bool done_ = false;
};

// Nothing when a listed manifest was deleted before it could be read.
Result<std::optional<TableTip>> TryFindTip(object_store::ObjectStore& store,
                                           const std::string& table) {
  NewestFirst names(store, table);
  std::optional<TableVersion> taken;
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto name, names.Next());
    if (!name) break;
    if (!taken) taken = name->version;
    const auto bytes = GetManifest(store, table, *name);
    if (Is(bytes.status(), ErrorKind::kNotFound)) return std::nullopt;
    ARROW_RETURN_NOT_OK(bytes.status());
    auto newest = Parse(table, *name, **bytes);
    if (Is(newest.status(), ErrorKind::kCorrupt) && IsTornManifest(**bytes)) continue;
    ARROW_RETURN_NOT_OK(newest.status());
    return TableTip{*std::move(newest), *taken};
  }
  if (!taken) return Error(ErrorKind::kNotFound, "there is no table at '{}'", table);
  return Error(ErrorKind::kCorrupt, "table '{}': every manifest is torn, up to version {}", table,
               *taken);
}

}  // namespace

std::string NameInTable(const std::string& table, const std::string& name) {
  return table.empty() ? name : table + "/" + name;
}

std::string ManifestName(TableVersion version, ManifestNaming naming) {
  if (naming == ManifestNaming::kV1) return fmt::format("{}{}", version, kSuffix);
  return fmt::format("{:020}{}", std::numeric_limits<uint64_t>::max() - version.value(), kSuffix);
}

Result<TableTip> FindTip(object_store::ObjectStore& store, const std::string& table) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ARROW_ASSIGN_OR_RAISE(auto tip, TryFindTip(store, table));
    if (tip) return *std::move(tip);
  }
  return Error(ErrorKind::kUnavailable,
               "table '{}': its newest manifest is deleted faster than it can be read", table);
}

Result<TableVersion> FindNewestVersion(object_store::ObjectStore& store, const std::string& table) {
  ARROW_ASSIGN_OR_RAISE(const TableTip tip, FindTip(store, table));
  return tip.newest.version;
}

Result<VersionedManifest> ReadVersion(object_store::ObjectStore& store, const std::string& table,
                                      TableVersion version) {
  for (const ManifestNaming naming : {ManifestNaming::kV2, ManifestNaming::kV1}) {
    const ParsedName name{naming, version};
    const auto bytes = GetManifest(store, table, name);
    if (Is(bytes.status(), ErrorKind::kNotFound)) continue;
    ARROW_RETURN_NOT_OK(bytes.status());
    return Parse(table, name, **bytes);
  }
  return Error(ErrorKind::kNotFound, "table '{}' has no version {}", table, version);
}

Result<LoadedManifest> ReadManifest(object_store::ObjectStore& store, const std::string& table,
                                    TableVersion version) {
  ARROW_ASSIGN_OR_RAISE(VersionedManifest manifest, ReadVersion(store, table, version));
  return std::move(manifest.loaded);
}

}  // namespace sarissa::lance
