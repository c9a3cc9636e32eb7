#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lance/file/file_writer.h"
#include "lance/index/btree.h"
#include "lance/index/sort_key.h"

namespace sarissa::lance {
namespace {

// Rows of `values` in index order: nulls by id, then values by (value, id).
Result<std::vector<int64_t>> SortedRows(const std::shared_ptr<arrow::Array>& values,
                                        const std::vector<uint64_t>& ids) {
  ARROW_ASSIGN_OR_RAISE(const SortKeys keys, SortKeys::Of(values));
  struct Entry {
    SortKey key;
    int64_t row;
  };
  const auto by_id = [&](int64_t a, int64_t b) {
    return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)];
  };
  std::vector<int64_t> rows;
  rows.reserve(ids.size());
  std::vector<Entry> entries;
  entries.reserve(ids.size());
  for (int64_t row = 0; row < values->length(); ++row) {
    if (keys.IsNull(row)) {
      rows.push_back(row);
    } else {
      entries.push_back({keys.At(row), row});
    }
  }
  std::sort(rows.begin(), rows.end(), by_id);
  std::sort(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    const auto order = a.key <=> b.key;
    return order != 0 ? order < 0 : by_id(a.row, b.row);
  });
  for (const Entry& entry : entries) rows.push_back(entry.row);
  return rows;
}

Result<std::shared_ptr<arrow::Array>> TakeValues(const arrow::Array& values,
                                                 const std::vector<int64_t>& rows) {
  arrow::Int64Builder builder;
  ARROW_RETURN_NOT_OK(builder.AppendValues(rows));
  std::shared_ptr<arrow::Array> indices;
  ARROW_RETURN_NOT_OK(builder.Finish(&indices));
  return arrow::compute::Take(values, *indices, arrow::compute::TakeOptions::NoBoundsCheck());
}

Result<std::unique_ptr<FileWriter>> MakeWriter(object_store::ObjectStore& store,
                                               const std::string& name,
                                               const arrow::Schema& arrow_schema,
                                               FileWriterOptions options) {
  ARROW_ASSIGN_OR_RAISE(Schema schema, Schema::FromArrow(arrow_schema));
  ARROW_ASSIGN_OR_RAISE(auto sink, store.Create(name));
  return FileWriter::Make(std::move(sink), std::move(schema), std::move(options));
}

Result<uint64_t> WritePageData(object_store::ObjectStore& store, const std::string& name,
                               const arrow::Array& values, const std::vector<uint64_t>& ids,
                               const std::vector<int64_t>& rows, const BTreeOptions& options) {
  const auto schema = arrow::schema({arrow::field("values", values.type()),
                                     arrow::field("ids", arrow::uint64(), /*nullable=*/false)});
  FileWriterOptions writer_options;
  writer_options.version = options.version;
  ARROW_ASSIGN_OR_RAISE(const auto writer,
                        MakeWriter(store, name, *schema, std::move(writer_options)));
  // In pieces: the sorted copy of a large index is never in memory at once.
  for (size_t first = 0; first < rows.size(); first += options.batch_size) {
    const size_t last = std::min<size_t>(rows.size(), first + options.batch_size);
    const std::vector<int64_t> piece(rows.begin() + static_cast<int64_t>(first),
                                     rows.begin() + static_cast<int64_t>(last));
    ARROW_ASSIGN_OR_RAISE(const auto piece_values, TakeValues(values, piece));
    arrow::UInt64Builder builder;
    ARROW_RETURN_NOT_OK(builder.Reserve(static_cast<int64_t>(piece.size())));
    for (const int64_t row : piece) builder.UnsafeAppend(ids[static_cast<size_t>(row)]);
    std::shared_ptr<arrow::Array> piece_ids;
    ARROW_RETURN_NOT_OK(builder.Finish(&piece_ids));
    ARROW_RETURN_NOT_OK(writer->Write(
        *arrow::RecordBatch::Make(schema, piece_ids->length(), {piece_values, piece_ids})));
  }
  ARROW_ASSIGN_OR_RAISE(const FileSummary summary,
                        writer->Finish(object_store::PutMode::kIfAbsent));
  return summary.size_bytes;
}

Result<uint64_t> WritePageLookup(object_store::ObjectStore& store, const std::string& name,
                                 const arrow::Array& values, const std::vector<int64_t>& rows,
                                 const BTreeOptions& options) {
  std::vector<int64_t> first_rows;
  std::vector<int64_t> last_rows;
  arrow::UInt32Builder null_counts;
  arrow::UInt32Builder page_numbers;
  for (size_t first = 0; first < rows.size(); first += options.batch_size) {
    const size_t last = std::min<size_t>(rows.size(), first + options.batch_size);
    first_rows.push_back(rows[first]);
    last_rows.push_back(rows[last - 1]);
    const auto nulls = std::count_if(rows.begin() + static_cast<int64_t>(first),
                                     rows.begin() + static_cast<int64_t>(last),
                                     [&](int64_t row) { return values.IsNull(row); });
    ARROW_RETURN_NOT_OK(null_counts.Append(static_cast<uint32_t>(nulls)));
    ARROW_RETURN_NOT_OK(page_numbers.Append(static_cast<uint32_t>(page_numbers.length())));
  }
  ARROW_ASSIGN_OR_RAISE(const auto mins, TakeValues(values, first_rows));
  ARROW_ASSIGN_OR_RAISE(const auto maxes, TakeValues(values, last_rows));
  ARROW_ASSIGN_OR_RAISE(const auto nulls, null_counts.Finish());
  ARROW_ASSIGN_OR_RAISE(const auto numbers, page_numbers.Finish());
  const auto schema =
      arrow::schema({arrow::field("min", values.type()), arrow::field("max", values.type()),
                     arrow::field("null_count", arrow::uint32(), /*nullable=*/false),
                     arrow::field("page_idx", arrow::uint32(), /*nullable=*/false)});
  FileWriterOptions writer_options;
  writer_options.version = options.version;
  writer_options.schema_metadata = {{"batch_size", fmt::format("{}", options.batch_size)},
                                    {"range_partitioned", "false"}};
  ARROW_ASSIGN_OR_RAISE(const auto writer,
                        MakeWriter(store, name, *schema, std::move(writer_options)));
  if (numbers->length() > 0) {
    ARROW_RETURN_NOT_OK(writer->Write(
        *arrow::RecordBatch::Make(schema, numbers->length(), {mins, maxes, nulls, numbers})));
  }
  ARROW_ASSIGN_OR_RAISE(const FileSummary summary,
                        writer->Finish(object_store::PutMode::kIfAbsent));
  return summary.size_bytes;
}

}  // namespace

Result<BTreeFiles> WriteBTree(object_store::ObjectStore& store, const std::string& directory,
                              const std::shared_ptr<arrow::Array>& values,
                              const std::vector<uint64_t>& ids, const BTreeOptions& options) {
  if (static_cast<uint64_t>(values->length()) != ids.size()) {
    return Error(ErrorKind::kInvalid, "B-tree {}: {} values and {} ids", directory,
                 values->length(), ids.size());
  }
  if (options.batch_size == 0)
    return Error(ErrorKind::kInvalid, "B-tree {}: a page of 0 rows", directory);
  ARROW_ASSIGN_OR_RAISE(const std::vector<int64_t> rows, SortedRows(values, ids));
  BTreeFiles files;
  ARROW_ASSIGN_OR_RAISE(files.page_data_bytes, WritePageData(store, directory + "/page_data.lance",
                                                             *values, ids, rows, options));
  ARROW_ASSIGN_OR_RAISE(
      files.page_lookup_bytes,
      WritePageLookup(store, directory + "/page_lookup.lance", *values, rows, options));
  return files;
}

}  // namespace sarissa::lance
