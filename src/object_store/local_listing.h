// Listing objects that are files below a directory.
#pragma once

#include <string>
#include <string_view>

#include "env/file_system.h"
#include "object_store/object_store.h"

namespace sarissa::object_store {

// Files and directories whose name starts so are objects in the making.
inline constexpr std::string_view kTemporaryPrefix = ".tmp.";

// ObjectStore::List for the tree at `root`. A directory without any object below it is no folder.
Result<Listing> ListLocal(env::FileSystem& file_system, const std::string& root,
                          const std::string& prefix, const ListOptions& options);

}  // namespace sarissa::object_store
