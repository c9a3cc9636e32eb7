// A decorator that computes the block checksums of everything that is put below a prefix, while it
// is streamed, and puts the sidecar of it at the end. Nothing is read back.
//
// What counts is what a name holds last. A put-if-absent that met an existing name, or whose
// outcome is unknown, is taken for landed unless an earlier put of the name is known: whoever goes
// on after that has made sure that the object holds his bytes. An overwrite of unknown outcome
// leaves the name unverified. Thread safe. Errors are the inner store's.
#pragma once

#include <memory>
#include <string>

#include "object_store/block_checksums.h"
#include "object_store/object_store.h"

namespace sarissa::object_store {

class ChecksumRecorder final : public ObjectStore {
 public:
  // `inner` is borrowed and outlives the recorder and its writers. `prefix` ends with '/'.
  ChecksumRecorder(ObjectStore& inner, std::string prefix);

  ChecksumTable checksums() const;
  // Puts the sidecar for what was put so far; must not exist yet.
  Status PutSidecar();

  Result<std::unique_ptr<ObjectWriter>> Create(const std::string& name) override;
  Result<std::shared_ptr<ObjectReader>> Open(const std::string& name) override;
  Result<ObjectInfo> Head(const std::string& name) override;
  Result<Listing> List(const std::string& prefix, const ListOptions& options) override;
  Status Delete(const std::string& name) override;
  Status DeletePrefix(const std::string& prefix) override;

 private:
  friend class RecordingWriter;
  class Record;

  ObjectStore& inner_;
  const std::string prefix_;
  // Shared with writers, which may outlive the recorder.
  std::shared_ptr<Record> record_;
};

}  // namespace sarissa::object_store
