#include "lance/file/file_reader.h"

#include <arrow/array.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "lance/file/column_pages.h"
#include "lance/file/file_footer.h"
#include "lance/file/leaf_shape.h"
#include "lance/file/page_reader.h"
#include "lance/file/rep_def_unraveler.h"
#include "proto/lance_file.pb.h"

namespace sarissa::lance {
namespace {

constexpr uint64_t kMaxReadRows = INT32_MAX;

class PagedFileReader final : public FileReader {
 public:
  PagedFileReader(std::shared_ptr<object_store::ObjectReader> object, FileFooter footer,
                  uint64_t num_rows)
      : object_(std::move(object)),
        footer_(std::move(footer)),
        num_rows_(num_rows),
        columns_(footer_.column_metadata.size()) {}

  FileVersion version() const override { return footer_.version; }
  uint64_t num_rows() const override { return num_rows_; }
  int32_t num_columns() const override {
    return static_cast<int32_t>(footer_.column_metadata.size());
  }
  const Schema& schema() const override { return OwnSchema().schema; }
  const std::map<std::string, std::string>& schema_metadata() const override {
    return OwnSchema().metadata;
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Read(std::span<const ColumnRequest> columns,
                                                   uint64_t first, uint64_t count) const override {
    if (count > kMaxReadRows) {
      return Error(ErrorKind::kInvalid, "{}: {} rows are too many for one read", object_->name(),
                   count);
    }
    const RowRange range{first, count};
    const size_t ranges = count == 0 ? 0 : 1;
    return ReadRanges(columns, std::span<const RowRange>(&range, ranges), count);
  }

  Result<std::shared_ptr<arrow::RecordBatch>> Take(std::span<const ColumnRequest> columns,
                                                   std::span<const uint64_t> rows) const override {
    std::vector<RowRange> ranges;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i > 0 && rows[i] <= rows[i - 1]) {
        return Error(ErrorKind::kInvalid, "{}: rows to take do not ascend at {}", object_->name(),
                     rows[i]);
      }
      if (!ranges.empty() && ranges.back().end() == rows[i]) {
        ++ranges.back().count;
      } else {
        ranges.push_back({rows[i], 1});
      }
    }
    if (rows.size() > kMaxReadRows) {
      return Error(ErrorKind::kInvalid, "{}: {} rows are too many for one read", object_->name(),
                   rows.size());
    }
    return ReadRanges(columns, ranges, rows.size());
  }

  Result<std::vector<ColumnRequest>> AllColumns() const override;

  Result<uint64_t> ColumnBytes(int32_t column) const override {
    ARROW_ASSIGN_OR_RAISE(auto pages, Pages(column));
    return pages->bytes;
  }

 private:
  struct ParsedSchema {
    Status status;
    Schema schema;
    std::map<std::string, std::string> metadata;
  };

  // Parsed when somebody asks: tables bring a schema of their own.
  const ParsedSchema& OwnSchema() const;
  Result<std::shared_ptr<const ColumnPages>> Pages(int32_t column) const;
  Result<std::string> MetadataOf(size_t column) const;
  Result<std::shared_ptr<arrow::RecordBatch>> ReadRanges(std::span<const ColumnRequest> columns,
                                                         std::span<const RowRange> ranges,
                                                         uint64_t rows) const;
  Result<std::shared_ptr<arrow::Array>> ReadColumn(const ColumnRequest& column,
                                                   std::span<const RowRange> ranges,
                                                   uint64_t rows) const;
  Status ReadLeaf(int32_t column, const LeafShape& shape, std::span<const RowRange> ranges,
                  LeafSink* sink) const;

  const std::shared_ptr<object_store::ObjectReader> object_;
  const FileFooter footer_;
  const uint64_t num_rows_;
  mutable std::once_flag schema_once_;
  mutable ParsedSchema schema_;
  // Leaf lock; held for look-ups only.
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const ColumnPages>> columns_;
};

const PagedFileReader::ParsedSchema& PagedFileReader::OwnSchema() const {
  std::call_once(schema_once_, [this] {
    pb::file::FileDescriptor descriptor;
    if (!descriptor.ParseFromString(footer_.descriptor_bytes)) {
      schema_.status =
          Error(ErrorKind::kCorrupt, "{}: the file descriptor does not parse", object_->name());
      return;
    }
    for (const auto& [key, value] : descriptor.schema().metadata()) {
      schema_.metadata.emplace(key, value);
    }
    auto schema = Schema::FromProto(descriptor.schema().fields(), descriptor.schema().metadata());
    schema_.status = Annotate(schema.status(), object_->name());
    if (schema.ok()) schema_.schema = std::move(*schema);
  });
  return schema_;
}

Result<std::string> PagedFileReader::MetadataOf(size_t column) const {
  const FileRange& range = footer_.column_metadata[column];
  if (!footer_.metadata_bytes.empty()) {
    uint64_t at = 0;
    for (size_t i = 0; i < column; ++i) at += footer_.column_metadata[i].size;
    return footer_.metadata_bytes.substr(at, range.size);
  }
  if (range.size == 0) return std::string();
  ARROW_ASSIGN_OR_RAISE(auto bytes, object_->ReadRange(range.offset, range.size));
  return bytes->ToString();
}

Result<std::shared_ptr<const ColumnPages>> PagedFileReader::Pages(int32_t column) const {
  if (column < 0 || column >= num_columns()) {
    return Error(ErrorKind::kInvalid, "{}: column {} of {}", object_->name(), column,
                 num_columns());
  }
  const auto index = static_cast<size_t>(column);
  {
    const std::scoped_lock lock(mutex_);
    if (columns_[index] != nullptr) return columns_[index];
  }
  ARROW_ASSIGN_OR_RAISE(const std::string metadata, MetadataOf(index));
  auto pages = ParseColumnPages(metadata, object_->size());
  if (!pages.ok()) {
    return Annotate(pages.status(), fmt::format("{}: column {}", object_->name(), column));
  }
  auto shared = std::make_shared<const ColumnPages>(std::move(*pages));
  const std::scoped_lock lock(mutex_);
  if (columns_[index] == nullptr) columns_[index] = std::move(shared);
  return columns_[index];
}

Result<std::vector<ColumnRequest>> PagedFileReader::AllColumns() const {
  const ParsedSchema& own = OwnSchema();
  ARROW_RETURN_NOT_OK(own.status);
  const auto& fields = own.schema.arrow_schema()->fields();
  std::vector<ColumnRequest> requests;
  int32_t next = 0;
  for (const auto& field : fields) {
    ColumnRequest request{.field = field, .leaf_columns = {}};
    ARROW_ASSIGN_OR_RAISE(const auto leaves, LeafShapesOf(*field));
    for (size_t i = 0; i < leaves.size(); ++i) request.leaf_columns.push_back(next++);
    requests.push_back(std::move(request));
  }
  if (next > num_columns()) {
    return Error(ErrorKind::kCorrupt, "{}: the schema has {} leaves, the file {} columns",
                 object_->name(), next, num_columns());
  }
  return requests;
}

Result<std::shared_ptr<arrow::RecordBatch>> PagedFileReader::ReadRanges(
    std::span<const ColumnRequest> columns, std::span<const RowRange> ranges, uint64_t rows) const {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const ColumnRequest& column : columns) {
    auto array = ReadColumn(column, ranges, rows);
    if (!array.ok()) return Annotate(array.status(), object_->name());
    fields.push_back(column.field);
    arrays.push_back(std::move(*array));
  }
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields)), static_cast<int64_t>(rows),
                                  std::move(arrays));
}

Result<std::shared_ptr<arrow::Array>> PagedFileReader::ReadColumn(const ColumnRequest& column,
                                                                  std::span<const RowRange> ranges,
                                                                  uint64_t rows) const {
  ARROW_ASSIGN_OR_RAISE(const auto shapes, LeafShapesOf(*column.field));
  if (shapes.size() != column.leaf_columns.size()) {
    return Error(ErrorKind::kInvalid, "field '{}' has {} leaves, {} columns were given",
                 column.field->name(), shapes.size(), column.leaf_columns.size());
  }
  std::vector<LeafValues> leaves;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool one_slot_a_row = shapes[i].max_rep == 0;
    LeafSink sink{LevelBuffer(shapes[i]), SlotBuilder::Make(shapes[i], one_slot_a_row ? rows : 0)};
    ARROW_RETURN_NOT_OK(ReadLeaf(column.leaf_columns[i], shapes[i], ranges, &sink));
    leaves.push_back({&shapes[i], std::move(sink)});
  }
  auto array = Unravel(*column.field, leaves, rows);
  if (array.ok()) return array;
  return Annotate(array.status(), fmt::format("column {}", column.leaf_columns[0]));
}

Status PagedFileReader::ReadLeaf(int32_t column, const LeafShape& shape,
                                 std::span<const RowRange> ranges, LeafSink* sink) const {
  ARROW_ASSIGN_OR_RAISE(const auto pages, Pages(column));
  if (!ranges.empty() && (ranges.back().first > pages->rows ||
                          ranges.back().count > pages->rows - ranges.back().first)) {
    return Error(ErrorKind::kInvalid, "column {} has {} rows; row {} was asked for", column,
                 pages->rows, ranges.back().end() - 1);
  }
  std::vector<RowRange> local;
  size_t range = 0;
  for (size_t i = 0; i < pages->pages.size() && range < ranges.size(); ++i) {
    const PageInfo& page = pages->pages[i];
    const uint64_t end = page.first_row + page.rows;
    local.clear();
    while (range < ranges.size() && ranges[range].end() <= page.first_row) ++range;
    for (size_t k = range; k < ranges.size() && ranges[k].first < end; ++k) {
      const uint64_t first = std::max(ranges[k].first, page.first_row);
      local.push_back({first - page.first_row, std::min(ranges[k].end(), end) - first});
    }
    if (local.empty()) continue;
    auto reader = PageReader::Make({*object_, footer_.version, page, shape});
    const Status status = reader.ok() ? (*reader)->Read(local, sink) : reader.status();
    if (!status.ok()) return Annotate(status, fmt::format("column {} page {}", column, i));
  }
  return Status::OK();
}

}  // namespace

Result<std::shared_ptr<FileReader>> FileReader::Open(
    std::shared_ptr<object_store::ObjectReader> object) {
  auto footer = ReadFooter(*object);
  if (!footer.ok()) return Annotate(footer.status(), object->name());
  if (footer->column_metadata.size() > INT32_MAX) {
    return Error(ErrorKind::kCorrupt, "{}: too many columns", object->name());
  }
  pb::file::FileDescriptor descriptor;
  if (!descriptor.ParseFromString(footer->descriptor_bytes)) {
    return Error(ErrorKind::kCorrupt, "{}: the file descriptor does not parse", object->name());
  }
  return std::make_shared<PagedFileReader>(std::move(object), std::move(*footer),
                                           descriptor.length());
}

}  // namespace sarissa::lance
