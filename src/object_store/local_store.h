// Objects as files below a root directory. All durability of local data rests here.
//
// Put-if-absent: nameless file, append, sync, link, directory sync. Overwrite: the same under a
// name that starts with ".tmp.", then rename, directory sync. Success is reported only when the
// entries of all directories on the path are durable too.
//
// Errors of Finish: a failed file sync means nothing landed (kIo, kNoSpace). After the link (or
// when the link itself failed with kIo) the outcome is unknown: kOutcomeUnknown. kAlreadyExists is
// returned only once the existing entry is durable. Delete is not synced: a deletion may be undone
// by a power loss until the next write in that directory. DeletePrefix is.
//
// Names with a part that starts with ".tmp." are refused for writing and left out of listings.
// Directories that another process deletes and makes again while this store is open are trusted to
// be durable in their parent. Thread safe; no lock is held across file system calls.
#pragma once

#include <memory>
#include <string>

#include "env/file_system.h"
#include "env/random.h"
#include "object_store/object_store.h"

namespace sarissa::object_store {

class LocalDirectories;

class LocalStore final : public ObjectStore {
 public:
  // Makes `root` and what is missing above it. Directories above the root that were there before
  // are the operator's: only the root's own entry is synced. Both references outlive the store and
  // its writers.
  static Result<std::unique_ptr<LocalStore>> Open(env::FileSystem& file_system, env::Random& random,
                                                  std::string root);

  Result<std::unique_ptr<ObjectWriter>> Create(const std::string& name) override;
  Result<std::shared_ptr<ObjectReader>> Open(const std::string& name) override;
  Result<ObjectInfo> Head(const std::string& name) override;
  Result<Listing> List(const std::string& prefix, const ListOptions& options) override;
  Status Delete(const std::string& name) override;
  Status DeletePrefix(const std::string& prefix) override;

  const std::string& root() const { return root_; }

 private:
  LocalStore(env::FileSystem& file_system, env::Random& random, std::string root);

  std::string PathOf(const std::string& name) const;
  Status DeleteTree(const std::string& directory);

  env::FileSystem& file_system_;
  env::Random& random_;
  const std::string root_;
  // Shared with writers, which may outlive the store.
  std::shared_ptr<LocalDirectories> directories_;
};

}  // namespace sarissa::object_store
