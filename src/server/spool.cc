#include "server/spool.h"

#include <arrow/result.h>

namespace sarissa::server {
namespace {

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Makes `path` and its parents. Each new entry is made durable: what is stored below must not
// vanish with it.
Status MakeDirectories(env::FileSystem& file_system, const std::string& path) {
  const Status made = file_system.CreateDirectory(path);
  if (made.ok() || Is(made, ErrorKind::kNotFound)) {
    const size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash);
    if (made.ok()) return file_system.SyncDirectory(parent.empty() ? "/" : parent);
    if (parent.empty() || parent == ".") return made;
    ARROW_RETURN_NOT_OK(MakeDirectories(file_system, parent));
    return MakeDirectories(file_system, path);
  }
  return Is(made, ErrorKind::kAlreadyExists) ? Status::OK() : made;
}

}  // namespace

Result<std::string> PrepareSpoolDirectory(env::FileSystem& file_system,
                                          const std::string& data_dir) {
  const std::string path = data_dir + "/_sarissa/spool";
  ARROW_RETURN_NOT_OK(MakeDirectories(file_system, path));
  return path;
}

Result<std::unique_ptr<Spool>> Spool::Create(env::FileSystem& file_system,
                                             const std::string& directory) {
  ARROW_ASSIGN_OR_RAISE(std::unique_ptr<env::WritableFile> file,
                        file_system.CreateUnnamed(directory));
  return std::unique_ptr<Spool>(new Spool(std::move(file)));
}

Status Spool::Append(std::span<const uint8_t> data) {
  if (gathered_.empty() && data.size() >= kWriteBytes) return file_->Append(data);
  gathered_.append(reinterpret_cast<const char*>(data.data()), data.size());
  if (gathered_.size() < kWriteBytes) return Status::OK();
  return WriteGathered();
}

Status Spool::WriteGathered() {
  if (gathered_.empty()) return Status::OK();
  ARROW_RETURN_NOT_OK(file_->Append(BytesOf(gathered_)));
  gathered_.clear();
  return Status::OK();
}

Status Spool::Finish() {
  ARROW_RETURN_NOT_OK(WriteGathered());
  gathered_.shrink_to_fit();
  ARROW_ASSIGN_OR_RAISE(reader_, file_->OpenForRead());
  return Status::OK();
}

Result<std::shared_ptr<arrow::Buffer>> Spool::Map(uint64_t offset, uint64_t length) const {
  SARISSA_CHECK(reader_ != nullptr, "Spool::Map before Finish");
  return reader_->Map(offset, length);
}

}  // namespace sarissa::server
