// Names to bytes. The only storage interface that lance/, memwal/ and engine/ know: nothing above
// this room knows where bytes live, assumes that a listing is fresh, or that a rename exists.
//
// Names are '/'-separated, relative, without empty, "." or ".." parts (kInvalid otherwise). An
// object appears whole and durable, or not at all. Thread safe. All calls block and belong on the
// storage executor. Errors: kNotFound, kAlreadyExists (put-if-absent), kOutcomeUnknown (the write
// may have landed), kUnavailable, kNoSpace, kIo.
#pragma once

#include <arrow/buffer.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sarissa::object_store {

enum class PutMode {
  kIfAbsent,   // kAlreadyExists if the name is taken; exactly one of several racing puts wins
  kOverwrite,  // last one wins, readers see the old or the new object, never a mixture
};

// An object under construction. Nothing is visible before Finish. Used by one thread at a time.
class ObjectWriter {
 public:
  // Without a successful Finish the bytes vanish.
  virtual ~ObjectWriter() = default;
  virtual Status Append(std::span<const uint8_t> data) = 0;
  // Appends a buffer that may be a mapped file range; passes its pages back as it goes.
  virtual Status AppendBuffer(const arrow::Buffer& buffer);
  virtual uint64_t size() const = 0;
  // Durable and visible on success.
  virtual Status Finish(PutMode mode) = 0;
};

// An object opened for reading; stays readable after the name is deleted. Thread safe.
class ObjectReader {
 public:
  virtual ~ObjectReader() = default;
  virtual uint64_t size() const = 0;
  virtual const std::string& name() const = 0;
  // Exactly `length` bytes. Ranges of env::kMapThresholdBytes and more may come back as mapped file
  // ranges.
  virtual Result<std::shared_ptr<arrow::Buffer>> ReadRange(uint64_t offset,
                                                           uint64_t length) const = 0;
};

struct ObjectInfo {
  std::string name;  // full name
  uint64_t size = 0;
};

struct ListOptions {
  // Only names greater than this one (byte order).
  std::string start_after = {};
  // At most this many entries; 0 = all.
  uint64_t limit = 0;
  // Without it the listing stops at the next '/' after the prefix: `objects` holds the direct
  // children, `folders` the names (with a trailing '/') that have something below them.
  bool recursive = false;
};

struct Listing {
  std::vector<ObjectInfo> objects;   // ascending by name
  std::vector<std::string> folders;  // ascending
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  virtual Result<std::unique_ptr<ObjectWriter>> Create(const std::string& name) = 0;
  virtual Result<std::shared_ptr<ObjectReader>> Open(const std::string& name) = 0;
  virtual Result<ObjectInfo> Head(const std::string& name) = 0;
  // `prefix` is empty or ends with '/'. A prefix with nothing below it gives an empty listing.
  virtual Result<Listing> List(const std::string& prefix, const ListOptions& options) = 0;
  // Deleting what is not there is fine.
  virtual Status Delete(const std::string& name) = 0;
  // Deletes everything below `prefix` (ends with '/'). Not atomic; may be repeated after a failure.
  virtual Status DeletePrefix(const std::string& prefix) = 0;

  // Conveniences over the above.
  virtual Status Put(const std::string& name, std::span<const uint8_t> data, PutMode mode);
  virtual Result<std::shared_ptr<arrow::Buffer>> Get(const std::string& name);
  virtual Result<std::shared_ptr<arrow::Buffer>> GetRange(const std::string& name, uint64_t offset,
                                                          uint64_t length);
};

// kInvalid unless `name` follows the rule above.
Status CheckName(std::string_view name);
// kInvalid unless `prefix` is empty, or such a name followed by '/'.
Status CheckPrefix(std::string_view prefix);

}  // namespace sarissa::object_store
