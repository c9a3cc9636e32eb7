#include "lance/file/file_writer.h"

#include <arrow/type.h>

#include <utility>
#include <vector>

#include "lance/file/column_path.h"
#include "lance/file/column_writer.h"
#include "lance/file/container_writer.h"
#include "lance/file/logical_type.h"

namespace sarissa::lance {
namespace {

// Whether arrays of `have` can be written as `want`: nullability and the names of list items do not
// matter.
bool SameLayout(const arrow::DataType& have, const arrow::DataType& want) {
  if (have.id() != want.id()) return false;
  if (want.id() == arrow::Type::FIXED_SIZE_LIST) {
    return static_cast<const arrow::FixedSizeListType&>(have).list_size() ==
               static_cast<const arrow::FixedSizeListType&>(want).list_size() &&
           SameLayout(*have.field(0)->type(), *want.field(0)->type());
  }
  if (want.id() == arrow::Type::DICTIONARY) {
    const auto& have_dictionary = static_cast<const arrow::DictionaryType&>(have);
    const auto& want_dictionary = static_cast<const arrow::DictionaryType&>(want);
    return have_dictionary.index_type()->Equals(*want_dictionary.index_type()) &&
           have_dictionary.value_type()->Equals(*want_dictionary.value_type());
  }
  if (IsLeafType(want)) return have.Equals(want);
  if (have.num_fields() != want.num_fields()) return false;
  for (int i = 0; i < want.num_fields(); ++i) {
    if (want.id() == arrow::Type::STRUCT && have.field(i)->name() != want.field(i)->name())
      return false;
    if (!SameLayout(*have.field(i)->type(), *want.field(i)->type())) return false;
  }
  return true;
}

class FileWriterImpl : public FileWriter {
 public:
  FileWriterImpl(std::unique_ptr<object_store::ObjectWriter> sink, Schema schema,
                 FileWriterOptions options, int num_columns)
      : schema_(std::move(schema)),
        options_(std::move(options)),
        container_(std::move(sink), options_.version, num_columns) {}

  Status AddColumns() {
    int column = 0;
    for (const auto& field : schema_.arrow_schema()->fields()) {
      std::vector<std::unique_ptr<ColumnWriter>> leaves;
      for (ColumnPath& path : LeafPathsOf(*field)) {
        ARROW_ASSIGN_OR_RAISE(auto leaf, ColumnWriter::Make(std::move(path), column++,
                                                            options_.page_bytes, &container_));
        leaves.push_back(std::move(leaf));
      }
      columns_.push_back(std::move(leaves));
    }
    return Status::OK();
  }

  Status Write(const arrow::RecordBatch& batch) override {
    ARROW_RETURN_NOT_OK(CheckUsable());
    Status status = WriteColumns(batch);
    failed_ = !status.ok();
    return status;
  }

  Result<FileSummary> Finish(object_store::PutMode mode) override {
    ARROW_RETURN_NOT_OK(CheckUsable());
    failed_ = true;
    for (auto& leaves : columns_) {
      for (auto& leaf : leaves) ARROW_RETURN_NOT_OK(leaf->Finish());
    }
    pb::file::FileDescriptor descriptor;
    descriptor.set_length(rows_);
    schema_.ToProto(descriptor.mutable_schema()->mutable_fields());
    for (const auto& [key, value] : options_.schema_metadata) {
      (*descriptor.mutable_schema()->mutable_metadata())[key] = value;
    }
    FileSummary summary;
    ARROW_ASSIGN_OR_RAISE(summary.size_bytes, container_.Finish(descriptor, mode));
    summary.rows = rows_;
    summary.columns = static_cast<int32_t>(schema_.AllLeafIds().size());
    return summary;
  }

 private:
  Status CheckUsable() const {
    if (failed_) return Error(ErrorKind::kInvalid, "the file writer has failed or is finished");
    return Status::OK();
  }

  Status CheckFits(const arrow::RecordBatch& batch) const {
    const arrow::Schema& want = *schema_.arrow_schema();
    if (batch.num_columns() != want.num_fields()) {
      return Error(ErrorKind::kInvalid, "the batch has {} columns, the file has {}",
                   batch.num_columns(), want.num_fields());
    }
    for (int i = 0; i < want.num_fields(); ++i) {
      if (batch.column_name(i) != want.field(i)->name()) {
        return Error(ErrorKind::kInvalid, "column {} of the batch is '{}', the file has '{}'", i,
                     batch.column_name(i), want.field(i)->name());
      }
      if (!SameLayout(*batch.column_data(i)->type, *want.field(i)->type())) {
        return Error(ErrorKind::kInvalid, "column '{}' of the batch is {}, the file has {}",
                     batch.column_name(i), batch.column_data(i)->type->ToString(),
                     want.field(i)->type()->ToString());
      }
    }
    Status valid = batch.Validate();
    if (!valid.ok()) return WithKind(valid, ErrorKind::kInvalid);
    return Status::OK();
  }

  Status WriteColumns(const arrow::RecordBatch& batch) {
    ARROW_RETURN_NOT_OK(CheckFits(batch));
    if (batch.num_rows() == 0) return Status::OK();
    for (int i = 0; i < batch.num_columns(); ++i) {
      for (auto& leaf : columns_[static_cast<size_t>(i)])
        ARROW_RETURN_NOT_OK(leaf->Append(*batch.column_data(i)));
    }
    rows_ += static_cast<uint64_t>(batch.num_rows());
    return Status::OK();
  }

  const Schema schema_;
  const FileWriterOptions options_;
  ContainerWriter container_;
  std::vector<std::vector<std::unique_ptr<ColumnWriter>>> columns_;  // leaves, by top-level column
  uint64_t rows_ = 0;
  bool failed_ = false;
};

}  // namespace

Result<std::unique_ptr<FileWriter>> FileWriter::Make(
    std::unique_ptr<object_store::ObjectWriter> sink, Schema schema, FileWriterOptions options) {
  if (options.version != kFileV21 && options.version != kFileV22) {
    return Error(ErrorKind::kUnsupported, "data files of version {} are not written",
                 options.version.ToString());
  }
  if (options.page_bytes <= 0)
    return Error(ErrorKind::kInvalid, "page_bytes is {}", options.page_bytes);
  const auto num_columns = static_cast<int>(schema.AllLeafIds().size());
  if (num_columns == 0) return Error(ErrorKind::kInvalid, "a data file needs at least one column");
  auto writer = std::make_unique<FileWriterImpl>(std::move(sink), std::move(schema),
                                                 std::move(options), num_columns);
  ARROW_RETURN_NOT_OK(writer->AddColumns());
  return writer;
}

}  // namespace sarissa::lance
