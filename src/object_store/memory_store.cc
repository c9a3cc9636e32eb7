#include "object_store/memory_store.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace sarissa::object_store {

class MemoryWriter final : public ObjectWriter {
 public:
  MemoryWriter(std::shared_ptr<MemoryStore::Objects> objects, std::string name)
      : objects_(std::move(objects)), name_(std::move(name)) {}

  Status Append(std::span<const uint8_t> data) override {
    if (finished_) return Error(ErrorKind::kInvalid, "'{}' is finished already", name_);
    bytes_.append(reinterpret_cast<const char*>(data.data()), data.size());
    return Status::OK();
  }

  uint64_t size() const override { return finished_ ? finished_size_ : bytes_.size(); }

  Status Finish(PutMode mode) override {
    if (finished_) return Error(ErrorKind::kInvalid, "'{}' is finished already", name_);
    finished_ = true;
    finished_size_ = bytes_.size();
    std::shared_ptr<arrow::Buffer> content = arrow::Buffer::FromString(std::move(bytes_));
    const std::scoped_lock lock(objects_->mutex);
    auto [place, is_new] = objects_->by_name.try_emplace(name_, content);
    if (is_new) return Status::OK();
    if (mode == PutMode::kIfAbsent)
      return Error(ErrorKind::kAlreadyExists, "put '{}': exists", name_);
    place->second = std::move(content);
    return Status::OK();
  }

 private:
  const std::shared_ptr<MemoryStore::Objects> objects_;
  const std::string name_;
  std::string bytes_;
  bool finished_ = false;
  uint64_t finished_size_ = 0;
};

namespace {

class MemoryReader final : public ObjectReader {
 public:
  MemoryReader(std::shared_ptr<arrow::Buffer> content, std::string name)
      : content_(std::move(content)), name_(std::move(name)) {}

  uint64_t size() const override { return static_cast<uint64_t>(content_->size()); }
  const std::string& name() const override { return name_; }
  Result<std::shared_ptr<arrow::Buffer>> ReadRange(uint64_t offset,
                                                   uint64_t length) const override {
    if (offset > size() || length > size() - offset) {
      return Error(ErrorKind::kInvalid,
                   "read '{}': {} bytes at offset {} are not within its {} bytes", name_, length,
                   offset, size());
    }
    return arrow::SliceBuffer(content_, static_cast<int64_t>(offset), static_cast<int64_t>(length));
  }

 private:
  const std::shared_ptr<arrow::Buffer> content_;
  const std::string name_;
};

}  // namespace

MemoryStore::MemoryStore() : objects_(std::make_shared<Objects>()) {}

Result<std::unique_ptr<ObjectWriter>> MemoryStore::Create(const std::string& name) {
  ARROW_RETURN_NOT_OK(CheckName(name));
  return std::make_unique<MemoryWriter>(objects_, name);
}

Result<std::shared_ptr<ObjectReader>> MemoryStore::Open(const std::string& name) {
  ARROW_RETURN_NOT_OK(CheckName(name));
  const std::scoped_lock lock(objects_->mutex);
  const auto found = objects_->by_name.find(name);
  if (found == objects_->by_name.end())
    return Error(ErrorKind::kNotFound, "open '{}': no such object", name);
  return std::make_shared<MemoryReader>(found->second, name);
}

Result<ObjectInfo> MemoryStore::Head(const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<ObjectReader> reader, Open(name));
  return ObjectInfo{.name = name, .size = reader->size()};
}

Result<Listing> MemoryStore::List(const std::string& prefix, const ListOptions& options) {
  ARROW_RETURN_NOT_OK(CheckPrefix(prefix));
  Listing listing;
  const std::scoped_lock lock(objects_->mutex);
  auto at = objects_->by_name.upper_bound(options.start_after);
  if (options.start_after < prefix) at = objects_->by_name.lower_bound(prefix);
  while (at != objects_->by_name.end() && at->first.starts_with(prefix)) {
    if (options.limit > 0 && listing.objects.size() + listing.folders.size() >= options.limit)
      break;
    const size_t slash = options.recursive ? std::string::npos : at->first.find('/', prefix.size());
    if (slash == std::string::npos) {
      listing.objects.push_back(
          {.name = at->first, .size = static_cast<uint64_t>(at->second->size())});
      ++at;
      continue;
    }
    std::string folder = at->first.substr(0, slash + 1);
    // The first name behind all names of the folder: '0' follows '/'.
    at = objects_->by_name.lower_bound(folder.substr(0, slash) + '0');
    if (folder > options.start_after) listing.folders.push_back(std::move(folder));
  }
  return listing;
}

Status MemoryStore::Delete(const std::string& name) {
  ARROW_RETURN_NOT_OK(CheckName(name));
  const std::scoped_lock lock(objects_->mutex);
  objects_->by_name.erase(name);
  return Status::OK();
}

Status MemoryStore::DeletePrefix(const std::string& prefix) {
  ARROW_RETURN_NOT_OK(CheckPrefix(prefix));
  if (prefix.empty()) return Error(ErrorKind::kInvalid, "the prefix to delete is empty");
  const std::scoped_lock lock(objects_->mutex);
  auto at = objects_->by_name.lower_bound(prefix);
  while (at != objects_->by_name.end() && at->first.starts_with(prefix))
    at = objects_->by_name.erase(at);
  return Status::OK();
}

}  // namespace sarissa::object_store
