#include "lance/table/open_files.h"

#include "lance/table/manifest.h"

namespace sarissa::lance {
namespace {

// A file descriptor each.
constexpr size_t kMaxDataFiles = 32;
constexpr size_t kMaxDeletionVectors = 64;

}  // namespace

OpenFiles::OpenFiles(object_store::ObjectStore& store, std::string table)
    : store_(store),
      table_(std::move(table)),
      data_(kMaxDataFiles),
      deletions_(kMaxDeletionVectors) {}

Result<std::shared_ptr<FileReader>> OpenFiles::Data(const pb::table::DataFile& file) {
  if (auto found = data_.Find(file.path())) return found;
  const std::string name = NameInTable(table_, "data/" + file.path());
  if (file.has_base_id())
    return Error(ErrorKind::kUnsupported, "data file {}: it lies under another base path", name);
  if (file.path().empty() || file.path().find('/') != std::string::npos) {
    return Error(ErrorKind::kCorrupt, "data file '{}': not a file name", name);
  }
  ARROW_ASSIGN_OR_RAISE(const auto object, store_.Open(name));
  if (file.file_size_bytes() != 0 && file.file_size_bytes() != object->size()) {
    return Error(ErrorKind::kCorrupt, "data file {}: {} bytes, the manifest says {}", name,
                 object->size(), file.file_size_bytes());
  }
  ARROW_ASSIGN_OR_RAISE(auto reader, FileReader::Open(object));
  data_.Insert(file.path(), reader);
  return reader;
}

Result<std::shared_ptr<const DeletionVector>> OpenFiles::Deletions(
    const pb::table::DataFragment& fragment, uint64_t physical_rows) {
  if (!fragment.has_deletion_file()) return std::make_shared<const DeletionVector>();
  const std::string name = DeletionFileName(table_, fragment.id(), fragment.deletion_file());
  if (auto found = deletions_.Find(name)) return found;
  ARROW_ASSIGN_OR_RAISE(auto vector, ReadDeletionVector(store_, table_, fragment, physical_rows));
  deletions_.Insert(name, vector);
  return vector;
}

}  // namespace sarissa::lance
