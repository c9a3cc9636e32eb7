// A decorator that counts: object_store_operations_total{operation,result} and
// object_store_bytes_total{direction}. `result` is "ok" or the name of the error kind; `direction`
// is "read" or "write". Thread safe.
#pragma once

#include <memory>
#include <string>

#include "env/metrics.h"
#include "object_store/object_store.h"

namespace sarissa::object_store {

class MeteredStore final : public ObjectStore {
 public:
  // Both references are borrowed and outlive the store and its writers and readers.
  MeteredStore(ObjectStore& inner, env::MetricsSink& metrics);

  Result<std::unique_ptr<ObjectWriter>> Create(const std::string& name) override;
  Result<std::shared_ptr<ObjectReader>> Open(const std::string& name) override;
  Result<ObjectInfo> Head(const std::string& name) override;
  Result<Listing> List(const std::string& prefix, const ListOptions& options) override;
  Status Delete(const std::string& name) override;
  Status DeletePrefix(const std::string& prefix) override;

 private:
  friend class MeteredWriter;
  friend class MeteredReader;
  class Meters;

  ObjectStore& inner_;
  // Shared with writers and readers, which may outlive the store.
  std::shared_ptr<Meters> meters_;
};

}  // namespace sarissa::object_store
