#include "lance/table/fragment_writer.h"

#include <utility>

#include "lance/table/manifest.h"

namespace sarissa::lance {

FragmentWriter::FragmentWriter(object_store::ObjectStore& store, env::Random& random,
                               std::string table, Schema schema, FileVersion version)
    : store_(store),
      table_(std::move(table)),
      file_name_(random.NextUuid().ToString() + ".lance"),
      schema_(std::move(schema)),
      version_(version) {}

Status FragmentWriter::Write(const arrow::RecordBatch& batch) {
  if (batch.num_rows() == 0) return Status::OK();
  if (writer_ == nullptr) {
    ARROW_ASSIGN_OR_RAISE(auto sink, store_.Create(NameInTable(table_, "data/" + file_name_)));
    FileWriterOptions options;
    options.version = version_;
    ARROW_ASSIGN_OR_RAISE(writer_, FileWriter::Make(std::move(sink), schema_, options));
  }
  return writer_->Write(batch);
}

Result<pb::table::DataFragment> FragmentWriter::Finish() {
  pb::table::DataFragment fragment;
  if (writer_ == nullptr) return fragment;
  ARROW_ASSIGN_OR_RAISE(const FileSummary summary,
                        writer_->Finish(object_store::PutMode::kIfAbsent));
  fragment.set_physical_rows(summary.rows);
  auto* file = fragment.add_files();
  file->set_path(file_name_);
  file->set_file_major_version(version_.major);
  file->set_file_minor_version(version_.minor);
  file->set_file_size_bytes(summary.size_bytes);
  int32_t column = 0;
  for (const int32_t leaf : schema_.AllLeafIds()) {
    file->add_fields(leaf);
    file->add_column_indices(column++);
  }
  return fragment;
}

}  // namespace sarissa::lance
