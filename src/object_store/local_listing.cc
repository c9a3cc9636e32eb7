#include "object_store/local_listing.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace sarissa::object_store {
namespace {

class LocalLister {
 public:
  LocalLister(env::FileSystem& file_system, const std::string& root, const ListOptions& options)
      : file_system_(file_system), root_(root), options_(options) {}

  // Adds what is directly below `prefix`, or all that is below it, in ascending order.
  Status Add(const std::string& prefix) {
    ARROW_ASSIGN_OR_RAISE(const std::vector<env::FileInfo> entries, SortedEntries(prefix));
    for (const env::FileInfo& entry : entries) {
      if (Full()) return Status::OK();
      const std::string name = prefix + entry.name;
      if (entry.is_directory) {
        ARROW_RETURN_NOT_OK(AddDirectory(name));
      } else if (name > options_.start_after) {
        listing_.objects.push_back({.name = name, .size = entry.size});
      }
    }
    return Status::OK();
  }

  Listing Take() { return std::move(listing_); }

 private:
  bool Full() const {
    return options_.limit > 0 &&
           listing_.objects.size() + listing_.folders.size() >= options_.limit;
  }

  // Entries of the directory of `prefix`, directories with a trailing '/', in the byte order of
  // their names. A directory that is not there (any more) is empty.
  Result<std::vector<env::FileInfo>> SortedEntries(const std::string& prefix) {
    Result<std::vector<env::FileInfo>> listed =
        file_system_.List(prefix.empty() ? root_ : PathOf(prefix));
    if (Is(listed.status(), ErrorKind::kNotFound)) return std::vector<env::FileInfo>();
    ARROW_RETURN_NOT_OK(listed.status());
    std::vector<env::FileInfo> entries = listed.MoveValueUnsafe();
    std::erase_if(entries, [](const env::FileInfo& entry) {
      return entry.name.starts_with(kTemporaryPrefix);
    });
    for (env::FileInfo& entry : entries) {
      if (entry.is_directory) entry.name += '/';
    }
    std::sort(entries.begin(), entries.end(),
              [](const env::FileInfo& left, const env::FileInfo& right) {
                return left.name < right.name;
              });
    return entries;
  }

  Status AddDirectory(const std::string& folder) {
    if (options_.recursive) {
      const bool all_before =
          folder <= options_.start_after && !options_.start_after.starts_with(folder);
      return all_before ? Status::OK() : Add(folder);
    }
    if (folder <= options_.start_after) return Status::OK();
    ARROW_ASSIGN_OR_RAISE(const bool has_objects, HasObjects(folder));
    if (has_objects) listing_.folders.push_back(folder);
    return Status::OK();
  }

  Result<bool> HasObjects(const std::string& prefix) {
    ARROW_ASSIGN_OR_RAISE(const std::vector<env::FileInfo> entries, SortedEntries(prefix));
    const auto is_file = [](const env::FileInfo& entry) { return !entry.is_directory; };
    if (std::any_of(entries.begin(), entries.end(), is_file)) return true;
    for (const env::FileInfo& entry : entries) {
      ARROW_ASSIGN_OR_RAISE(const bool has_objects, HasObjects(prefix + entry.name));
      if (has_objects) return true;
    }
    return false;
  }

  std::string PathOf(const std::string& prefix) const {
    return root_ + "/" + prefix.substr(0, prefix.size() - 1);
  }

  env::FileSystem& file_system_;
  const std::string& root_;
  const ListOptions& options_;
  Listing listing_;
};

}  // namespace

Result<Listing> ListLocal(env::FileSystem& file_system, const std::string& root,
                          const std::string& prefix, const ListOptions& options) {
  ARROW_RETURN_NOT_OK(CheckPrefix(prefix));
  LocalLister lister(file_system, root, options);
  ARROW_RETURN_NOT_OK(lister.Add(prefix));
  return lister.Take();
}

}  // namespace sarissa::object_store
