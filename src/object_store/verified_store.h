// A decorator that checks what is read below a folder against the folder's checksum sidecar.
//
// The size of a file is checked when it is opened; a block when a range that touches it is read for
// the first time through that reader, afterwards its reads go straight through. Mapped ranges are
// verified where they lie and given back as they are, without resident pages. Files that the
// sidecar does not name, and every file of a folder without a usable sidecar, are read unverified.
//
// Errors: kCorrupt naming the file, the block's offset and both checksums (counted in
// object_store_checksum_failures_total), and the inner store's. A sidecar that cannot be used is
// counted in object_store_checksum_sidecars_ignored_total{reason}. Head and List are not verified.
// What is put through this store under a name that the sidecar has is not what the sidecar says:
// meant for folders that never change. Thread safe; there are no locks.
#pragma once

#include <memory>
#include <string>

#include "env/metrics.h"
#include "object_store/block_checksums.h"
#include "object_store/object_store.h"

namespace sarissa::object_store {

class VerifiedStore final : public ObjectStore {
 public:
  // Reads the sidecar of the folder `prefix` (ends with '/'), which may be missing. `inner` and
  // `metrics` are borrowed and outlive the store and its readers.
  static Result<std::unique_ptr<VerifiedStore>> Open(ObjectStore& inner, std::string prefix,
                                                     env::MetricsSink& metrics);

  VerifiedStore(ObjectStore& inner, std::string prefix, ChecksumTable checksums,
                env::MetricsSink& metrics);

  // Empty when there is no usable sidecar.
  const ChecksumTable& checksums() const { return *checksums_; }

  Result<std::unique_ptr<ObjectWriter>> Create(const std::string& name) override;
  Result<std::shared_ptr<ObjectReader>> Open(const std::string& name) override;
  Result<ObjectInfo> Head(const std::string& name) override;
  Result<Listing> List(const std::string& prefix, const ListOptions& options) override;
  Status Delete(const std::string& name) override;
  Status DeletePrefix(const std::string& prefix) override;

 private:
  ObjectStore& inner_;
  const std::string prefix_;
  // Shared with readers, which may outlive the store.
  const std::shared_ptr<const ChecksumTable> checksums_;
  env::Counter& failures_;
};

}  // namespace sarissa::object_store
