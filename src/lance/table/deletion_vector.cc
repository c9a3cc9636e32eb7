#include "lance/table/deletion_vector.h"

#include <arrow/array.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "env/bounded_memory_pool.h"
#include "lance/table/manifest.h"
#include "lance/table/roaring_format.h"

namespace sarissa::lance {
namespace {

using pb::table::DeletionFile;

Result<std::vector<uint32_t>> ParseArrow(const std::shared_ptr<arrow::Buffer>& bytes,
                                         uint64_t physical_rows) {
  // A compressed body says its own length: the cap keeps a damaged one from taking the machine's
  // memory.
  env::BoundedMemoryPool pool(
      static_cast<int64_t>(std::min<uint64_t>(physical_rows, uint64_t{1} << 32) * 8 + (1 << 20)));
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = &pool;
  options.use_threads = false;
  options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  ARROW_ASSIGN_OR_RAISE(const auto reader,
                        arrow::ipc::RecordBatchFileReader::Open(
                            std::make_shared<arrow::io::BufferReader>(bytes), options));
  std::vector<uint32_t> out;
  for (int i = 0; i < reader->num_record_batches(); ++i) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, reader->ReadRecordBatch(i));
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    if (batch->num_columns() != 1 || batch->column(0)->type_id() != arrow::Type::UINT32 ||
        batch->column(0)->null_count() != 0) {
      return Error(ErrorKind::kCorrupt, "it is not one column of uint32 without nulls: {}",
                   batch->schema()->ToString());
    }
    const auto& offsets = static_cast<const arrow::UInt32Array&>(*batch->column(0));
    if (out.size() + static_cast<uint64_t>(offsets.length()) > physical_rows) {
      return Error(ErrorKind::kCorrupt, "it names more rows than the fragment's {}", physical_rows);
    }
    out.insert(out.end(), offsets.raw_values(), offsets.raw_values() + offsets.length());
  }
  return out;
}

Result<std::shared_ptr<arrow::Buffer>> SerializeArrow(std::span<const uint32_t> offsets) {
  const auto schema = arrow::schema({arrow::field("row_id", arrow::uint32(), /*nullable=*/false)});
  const auto values = std::make_shared<arrow::UInt32Array>(
      static_cast<int64_t>(offsets.size()),
      std::make_shared<arrow::Buffer>(reinterpret_cast<const uint8_t*>(offsets.data()),
                                      static_cast<int64_t>(offsets.size_bytes())));
  const auto batch = arrow::RecordBatch::Make(schema, values->length(), {values});
  ARROW_ASSIGN_OR_RAISE(const auto sink, arrow::io::BufferOutputStream::Create());
  ARROW_ASSIGN_OR_RAISE(const auto writer, arrow::ipc::MakeFileWriter(sink, schema));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*batch));
  ARROW_RETURN_NOT_OK(writer->Close());
  return sink->Finish();
}

}  // namespace

DeletionVector::DeletionVector(std::vector<uint32_t> offsets) : offsets_(std::move(offsets)) {
  if (!std::is_sorted(offsets_.begin(), offsets_.end()))
    std::sort(offsets_.begin(), offsets_.end());
  offsets_.erase(std::unique(offsets_.begin(), offsets_.end()), offsets_.end());
}

bool DeletionVector::Contains(uint32_t offset) const {
  return std::binary_search(offsets_.begin(), offsets_.end(), offset);
}

std::span<const uint32_t> DeletionVector::Range(uint64_t first, uint64_t last) const {
  const auto begin = std::lower_bound(offsets_.begin(), offsets_.end(), first);
  const auto end = std::lower_bound(begin, offsets_.end(), last);
  return {begin, end};
}

DeletionVector DeletionVector::Union(std::span<const uint32_t> more) const {
  const DeletionVector other(std::vector<uint32_t>(more.begin(), more.end()));
  DeletionVector out;
  out.offsets_.reserve(offsets_.size() + other.offsets_.size());
  std::set_union(offsets_.begin(), offsets_.end(), other.offsets_.begin(), other.offsets_.end(),
                 std::back_inserter(out.offsets_));
  return out;
}

std::string DeletionFileName(const std::string& table, uint64_t fragment_id,
                             const DeletionFile& file) {
  return NameInTable(
      table, fmt::format("_deletions/{}-{}-{}.{}", fragment_id, file.read_version(), file.id(),
                         file.file_type() == DeletionFile::BITMAP ? "bin" : "arrow"));
}

Result<std::shared_ptr<const DeletionVector>> ReadDeletionVector(
    object_store::ObjectStore& store, const std::string& table,
    const pb::table::DataFragment& fragment, uint64_t physical_rows) {
  if (!fragment.has_deletion_file()) return std::make_shared<const DeletionVector>();
  const DeletionFile& file = fragment.deletion_file();
  const std::string name = DeletionFileName(table, fragment.id(), file);
  if (file.has_base_id()) {
    return Error(ErrorKind::kUnsupported, "deletion file {}: it lies under another base path",
                 name);
  }
  if (file.file_type() != DeletionFile::ARROW && file.file_type() != DeletionFile::BITMAP) {
    return Error(ErrorKind::kUnsupported, "deletion file {}: unknown type {}", name,
                 static_cast<int>(file.file_type()));
  }
  auto bytes = store.Get(name);
  if (Is(bytes.status(), ErrorKind::kNotFound)) {
    return Error(ErrorKind::kNotFound, "deletion file {}, which the manifest names, is missing",
                 name);
  }
  ARROW_RETURN_NOT_OK(bytes.status());
  auto offsets =
      file.file_type() == DeletionFile::BITMAP
          ? ParseRoaring({(*bytes)->data(), static_cast<size_t>((*bytes)->size())}, physical_rows)
          : ParseArrow(*bytes, physical_rows);
  if (!offsets.ok()) {
    return Annotate(WithKind(offsets.status(), ErrorKind::kCorrupt),
                    fmt::format("deletion file {}", name));
  }
  auto vector = std::make_shared<const DeletionVector>(*std::move(offsets));
  if (!vector->empty() && vector->offsets().back() >= physical_rows) {
    return Error(ErrorKind::kCorrupt, "deletion file {}: offset {} in a fragment of {} rows", name,
                 vector->offsets().back(), physical_rows);
  }
  // Older writers left the number out.
  if (file.num_deleted_rows() != 0 && file.num_deleted_rows() != vector->size()) {
    return Error(ErrorKind::kCorrupt, "deletion file {}: {} rows, the manifest says {}", name,
                 vector->size(), file.num_deleted_rows());
  }
  return vector;
}

Result<DeletionFile> WriteDeletionVector(object_store::ObjectStore& store, env::Random& random,
                                         const std::string& table, uint64_t fragment_id,
                                         uint64_t read_version, const DeletionVector& vector,
                                         DeletionFile::FileType type) {
  DeletionFile file;
  file.set_file_type(type);
  file.set_read_version(read_version);
  file.set_id(random.Next());
  file.set_num_deleted_rows(vector.size());
  const std::string name = DeletionFileName(table, fragment_id, file);
  if (type == DeletionFile::BITMAP) {
    const std::string bytes = SerializeRoaring(vector.offsets());
    ARROW_RETURN_NOT_OK(store.Put(name,
                                  {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                                  object_store::PutMode::kOverwrite));
    return file;
  }
  ARROW_ASSIGN_OR_RAISE(const auto bytes, SerializeArrow(vector.offsets()));
  ARROW_RETURN_NOT_OK(store.Put(name, {bytes->data(), static_cast<size_t>(bytes->size())},
                                object_store::PutMode::kOverwrite));
  return file;
}

DeletionFile::FileType DeletionFileTypeFor(uint64_t deleted_rows) {
  return deleted_rows < kBitmapFromDeletedRows ? DeletionFile::ARROW : DeletionFile::BITMAP;
}

}  // namespace sarissa::lance
