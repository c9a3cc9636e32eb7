#include "object_store/object_store.h"

#include <algorithm>

#include "env/mapped_range.h"

namespace sarissa::object_store {
namespace {

// How much of a mapped range is resident at a time while it is copied.
constexpr int64_t kMappedSliceBytes = 4 << 20;

}  // namespace

Status ObjectWriter::AppendBuffer(const arrow::Buffer& buffer) {
  if (!env::IsMapped(buffer)) return Append({buffer.data(), static_cast<size_t>(buffer.size())});
  for (int64_t offset = 0; offset < buffer.size(); offset += kMappedSliceBytes) {
    const int64_t length = std::min(kMappedSliceBytes, buffer.size() - offset);
    ARROW_RETURN_NOT_OK(Append({buffer.data() + offset, static_cast<size_t>(length)}));
    env::ReleaseMappedPages(buffer, offset, length);
  }
  return Status::OK();
}

Status ObjectStore::Put(const std::string& name, std::span<const uint8_t> data, PutMode mode) {
  ARROW_ASSIGN_OR_RAISE(const std::unique_ptr<ObjectWriter> writer, Create(name));
  ARROW_RETURN_NOT_OK(writer->Append(data));
  return writer->Finish(mode);
}

Result<std::shared_ptr<arrow::Buffer>> ObjectStore::Get(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<ObjectReader> reader, Open(name));
  return reader->ReadRange(0, reader->size());
}

Result<std::shared_ptr<arrow::Buffer>> ObjectStore::GetRange(const std::string& name,
                                                             uint64_t offset, uint64_t length) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<ObjectReader> reader, Open(name));
  return reader->ReadRange(offset, length);
}

Status CheckName(std::string_view name) {
  if (name.empty()) return Error(ErrorKind::kInvalid, "an object name is empty");
  if (name.find('\0') != std::string_view::npos) {
    return Error(ErrorKind::kInvalid, "the object name '{}' has a NUL byte",
                 name.substr(0, name.find('\0')));
  }
  std::string_view rest = name;
  for (;;) {
    const size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") {
      return Error(ErrorKind::kInvalid, "the object name '{}' has a part '{}'", name, part);
    }
    if (slash == std::string_view::npos) return Status::OK();
    rest.remove_prefix(slash + 1);
  }
}

Status CheckPrefix(std::string_view prefix) {
  if (prefix.empty()) return Status::OK();
  if (!prefix.ends_with('/'))
    return Error(ErrorKind::kInvalid, "the prefix '{}' does not end with '/'", prefix);
  prefix.remove_suffix(1);
  return CheckName(prefix);
}

}  // namespace sarissa::object_store
