// Objects in a map: for tests, and for scratch data that dies with the process. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "object_store/object_store.h"

namespace sarissa::object_store {

class MemoryStore final : public ObjectStore {
 public:
  MemoryStore();

  Result<std::unique_ptr<ObjectWriter>> Create(const std::string& name) override;
  Result<std::shared_ptr<ObjectReader>> Open(const std::string& name) override;
  Result<ObjectInfo> Head(const std::string& name) override;
  Result<Listing> List(const std::string& prefix, const ListOptions& options) override;
  Status Delete(const std::string& name) override;
  Status DeletePrefix(const std::string& prefix) override;

 private:
  friend class MemoryWriter;

  struct Objects {
    std::mutex mutex;  // leaf
    std::map<std::string, std::shared_ptr<arrow::Buffer>, std::less<>> by_name;
  };
  // Shared with writers, which may outlive the store.
  std::shared_ptr<Objects> objects_;
};

}  // namespace sarissa::object_store
