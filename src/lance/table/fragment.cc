#include "lance/table/fragment.h"

#include <arrow/array/util.h>

#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sarissa::lance {
namespace {

struct Location {
  int file = 0;
  int32_t column = 0;
};
using LeafLocations = std::unordered_map<int32_t, Location>;

// Where each leaf of the fragment lies. A negative id is a field that was replaced, a negative
// column one that is not there.
Result<LeafLocations> LocateLeaves(const pb::table::DataFragment& fragment) {
  LeafLocations out;
  for (int file = 0; file < fragment.files_size(); ++file) {
    const auto& data_file = fragment.files(file);
    if (data_file.fields_size() != data_file.column_indices_size()) {
      return Error(ErrorKind::kCorrupt,
                   "fragment {}: data file {} has {} fields and {} column indices", fragment.id(),
                   data_file.path(), data_file.fields_size(), data_file.column_indices_size());
    }
    for (int i = 0; i < data_file.fields_size(); ++i) {
      if (data_file.fields(i) < 0 || data_file.column_indices(i) < 0) continue;
      out[data_file.fields(i)] = Location{file, data_file.column_indices(i)};
    }
  }
  return out;
}

// The file that holds `leaves` and their columns there; nothing when no file has any of them.
Result<std::optional<std::pair<int, std::vector<int32_t>>>> LocateColumn(
    const LeafLocations& locations, const std::vector<int32_t>& leaves, uint64_t fragment_id,
    const arrow::Field& field) {
  std::optional<int> file;
  std::vector<int32_t> columns;
  for (const int32_t leaf : leaves) {
    const auto found = locations.find(leaf);
    if (found == locations.end()) continue;
    if (file && *file != found->second.file) {
      return Error(ErrorKind::kUnsupported,
                   "fragment {}: column '{}' is spread over several data files", fragment_id,
                   field.name());
    }
    file = found->second.file;
    columns.push_back(found->second.column);
  }
  if (!file) return std::nullopt;
  if (columns.size() != leaves.size()) {
    return Error(ErrorKind::kUnsupported,
                 "fragment {}: only {} of the {} leaves of column '{}' are in a data file",
                 fragment_id, columns.size(), leaves.size(), field.name());
  }
  return std::make_pair(*file, std::move(columns));
}

}  // namespace

Result<std::shared_ptr<const Fragment>> Fragment::Open(OpenFiles& files,
                                                       const pb::table::DataFragment& fragment,
                                                       const Schema& projection) {
  std::shared_ptr<Fragment> out(new Fragment());
  out->id_ = fragment.id();
  out->physical_rows_ = fragment.physical_rows();
  out->schema_ = projection.arrow_schema();
  // Old writers left the number out.
  if (out->physical_rows_ == 0 && fragment.files_size() > 0) {
    ARROW_ASSIGN_OR_RAISE(const auto reader, files.Data(fragment.files(0)));
    out->physical_rows_ = reader->num_rows();
  }
  if (out->physical_rows_ > uint64_t{1} << 32) {
    return Error(ErrorKind::kCorrupt, "fragment {} has {} rows, more than an address can name",
                 fragment.id(), out->physical_rows_);
  }
  ARROW_RETURN_NOT_OK(out->AddSources(files, fragment, projection));
  ARROW_ASSIGN_OR_RAISE(out->deletions_, files.Deletions(fragment, out->physical_rows_));
  return out;
}

Status Fragment::AddSources(OpenFiles& files, const pb::table::DataFragment& fragment,
                            const Schema& projection) {
  ARROW_ASSIGN_OR_RAISE(const LeafLocations locations, LocateLeaves(fragment));
  std::map<int, Source> by_file;
  for (int i = 0; i < schema_->num_fields(); ++i) {
    const auto& field = schema_->field(i);
    ARROW_ASSIGN_OR_RAISE(auto location,
                          LocateColumn(locations, projection.LeafIds(i), id_, *field));
    if (!location) {
      if (field->nullable()) continue;
      return Error(ErrorKind::kCorrupt,
                   "fragment {}: no data file has column '{}', which cannot be null", id_,
                   field->name());
    }
    Source& source = by_file[location->first];
    source.requests.push_back(ColumnRequest{field, std::move(location->second)});
    source.columns.push_back(i);
  }
  for (auto& [file, source] : by_file) {
    ARROW_ASSIGN_OR_RAISE(source.reader, files.Data(fragment.files(file)));
    for (const ColumnRequest& request : source.requests) {
      for (const int32_t column : request.leaf_columns) {
        if (column < source.reader->num_columns()) continue;
        return Error(ErrorKind::kCorrupt,
                     "fragment {}: column '{}' is column {} of data file {}, which has {}", id_,
                     request.field->name(), column, fragment.files(file).path(),
                     source.reader->num_columns());
      }
    }
    sources_.push_back(std::move(source));
  }
  return Status::OK();
}

template <typename ReadSource>
Result<std::shared_ptr<arrow::RecordBatch>> Fragment::Assemble(int64_t rows,
                                                               const ReadSource& read) const {
  std::vector<std::shared_ptr<arrow::Array>> columns(static_cast<size_t>(schema_->num_fields()));
  for (const Source& source : sources_) {
    ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::RecordBatch> batch, read(source));
    if (batch->num_rows() != rows) {
      return Error(ErrorKind::kCorrupt, "fragment {}: a data file gave {} of {} rows", id_,
                   batch->num_rows(), rows);
    }
    for (size_t i = 0; i < source.columns.size(); ++i) {
      columns[static_cast<size_t>(source.columns[i])] = batch->column(static_cast<int>(i));
    }
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] != nullptr) continue;
    ARROW_ASSIGN_OR_RAISE(
        columns[i], arrow::MakeArrayOfNull(schema_->field(static_cast<int>(i))->type(), rows));
  }
  return arrow::RecordBatch::Make(schema_, rows, std::move(columns));
}

Result<std::shared_ptr<arrow::RecordBatch>> Fragment::Read(uint64_t first, uint64_t count) const {
  return Assemble(static_cast<int64_t>(count), [&](const Source& source) {
    return source.reader->Read(source.requests, first, count);
  });
}

Result<std::shared_ptr<arrow::RecordBatch>> Fragment::Take(
    std::span<const uint64_t> offsets) const {
  return Assemble(static_cast<int64_t>(offsets.size()), [&](const Source& source) {
    return source.reader->Take(source.requests, offsets);
  });
}

Result<std::vector<uint64_t>> Fragment::BytesPerRow() const {
  std::vector<uint64_t> out(static_cast<size_t>(schema_->num_fields()), 0);
  if (physical_rows_ == 0) return out;
  for (const Source& source : sources_) {
    for (size_t i = 0; i < source.requests.size(); ++i) {
      uint64_t bytes = 0;
      for (const int32_t column : source.requests[i].leaf_columns) {
        ARROW_ASSIGN_OR_RAISE(const uint64_t column_bytes, source.reader->ColumnBytes(column));
        bytes += column_bytes;
      }
      out[static_cast<size_t>(source.columns[i])] = bytes / physical_rows_;
    }
  }
  return out;
}

}  // namespace sarissa::lance
