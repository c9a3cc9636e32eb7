#include <arrow/array.h>
#include <arrow/array/util.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "lance/file/file_reader.h"
#include "lance/index/btree.h"
#include "lance/index/sort_key.h"

namespace sarissa::lance {
namespace {

struct Page {
  uint64_t first_row = 0;
  uint32_t null_count = 0;
};

// The values to look for: one, or the neighbours -0.0 and 0.0.
struct Wanted {
  SortKey lowest;
  SortKey highest;
};

Result<std::shared_ptr<FileReader>> OpenFile(object_store::ObjectStore& store,
                                             const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(auto object, store.Open(name));
  return FileReader::Open(std::move(object));
}

Result<uint64_t> BatchSize(const FileReader& lookup, const std::string& name) {
  const auto& metadata = lookup.schema_metadata();
  if (const auto partitioned = metadata.find("range_partitioned");
      partitioned != metadata.end() && partitioned->second != "false") {
    return Error(ErrorKind::kUnsupported, "B-tree {}: range_partitioned is '{}'", name,
                 partitioned->second);
  }
  const auto found = metadata.find("batch_size");
  const std::string text = found != metadata.end() ? found->second : "";
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size == 0) {
    return Error(ErrorKind::kCorrupt, "B-tree {}: batch_size is '{}'", name, text);
  }
  return size;
}

// True if the columns are named and typed as `columns` says.
bool HasColumns(
    const arrow::Schema& schema,
    const std::vector<std::pair<std::string, std::shared_ptr<arrow::DataType>>>& columns) {
  if (schema.num_fields() != static_cast<int>(columns.size())) return false;
  for (int i = 0; i < schema.num_fields(); ++i) {
    const auto& [name, type] = columns[static_cast<size_t>(i)];
    if (schema.field(i)->name() != name || !schema.field(i)->type()->Equals(type)) return false;
  }
  return true;
}

class LanceBTree final : public BTreeReader {
 public:
  static Result<std::shared_ptr<BTreeReader>> Open(object_store::ObjectStore& store,
                                                   const std::string& directory) {
    std::shared_ptr<LanceBTree> out(new LanceBTree());
    out->name_ = directory;
    ARROW_ASSIGN_OR_RAISE(out->data_, OpenFile(store, directory + "/page_data.lance"));
    ARROW_ASSIGN_OR_RAISE(const auto lookup, OpenFile(store, directory + "/page_lookup.lance"));
    ARROW_ASSIGN_OR_RAISE(out->batch_size_, BatchSize(*lookup, directory));
    const auto& data_schema = *out->data_->schema().arrow_schema();
    if (data_schema.num_fields() == 0)
      return Error(ErrorKind::kCorrupt, "B-tree {}: no columns", directory);
    out->value_type_ = data_schema.field(0)->type();
    ARROW_ASSIGN_OR_RAISE(out->columns_, out->data_->AllColumns());
    if (!HasColumns(data_schema, {{"values", out->value_type_}, {"ids", arrow::uint64()}}) ||
        !HasColumns(*lookup->schema().arrow_schema(), {{"min", out->value_type_},
                                                       {"max", out->value_type_},
                                                       {"null_count", arrow::uint32()},
                                                       {"page_idx", arrow::uint32()}})) {
      return Error(ErrorKind::kCorrupt, "B-tree {}: unexpected columns: {} and {}", directory,
                   data_schema.ToString(), lookup->schema().arrow_schema()->ToString());
    }
    ARROW_RETURN_NOT_OK(out->LoadLookup(*lookup));
    return out;
  }

  const std::shared_ptr<arrow::DataType>& value_type() const override { return value_type_; }
  uint64_t num_rows() const override { return data_->num_rows(); }

  Result<std::vector<uint64_t>> Find(const arrow::Scalar& value) const override {
    if (!value.type->Equals(value_type_) && value.type->id() != arrow::Type::NA) {
      return Error(ErrorKind::kInvalid, "B-tree {}: a value of type {} in an index of {}", name_,
                   value.type->ToString(), value_type_->ToString());
    }
    std::vector<uint64_t> ids;
    if (!value.is_valid) {
      ARROW_RETURN_NOT_OK(FindNulls(ids));
    } else {
      // Keeps what the keys point at.
      ARROW_ASSIGN_OR_RAISE(const auto array, arrow::MakeArrayFromScalar(value, 1));
      ARROW_ASSIGN_OR_RAISE(const SortKeys keys, SortKeys::Of(array));
      ARROW_RETURN_NOT_OK(FindValue(WantedOf(keys.At(0)), ids));
    }
    std::sort(ids.begin(), ids.end());
    return ids;
  }

 private:
  Status LoadLookup(const FileReader& lookup) {
    ARROW_ASSIGN_OR_RAISE(const auto columns, lookup.AllColumns());
    ARROW_ASSIGN_OR_RAISE(const auto batch, lookup.Read(columns, 0, lookup.num_rows()));
    const auto& null_counts = static_cast<const arrow::UInt32Array&>(*batch->column(2));
    const auto& page_numbers = static_cast<const arrow::UInt32Array&>(*batch->column(3));
    const uint64_t pages = (num_rows() + batch_size_ - 1) / batch_size_;
    if (static_cast<uint64_t>(batch->num_rows()) != pages ||
        null_counts.null_count() + page_numbers.null_count() > 0) {
      return Error(ErrorKind::kCorrupt,
                   "B-tree {}: page_lookup has {} rows for {} pages of {} rows", name_,
                   batch->num_rows(), pages, batch_size_);
    }
    for (int64_t i = 0; i < batch->num_rows(); ++i) {
      if (page_numbers.Value(i) >= pages) {
        return Error(ErrorKind::kCorrupt, "B-tree {}: page {} of {}", name_, page_numbers.Value(i),
                     pages);
      }
      pages_.push_back({page_numbers.Value(i) * batch_size_, null_counts.Value(i)});
    }
    ARROW_ASSIGN_OR_RAISE(mins_, SortKeys::Of(batch->column(0)));
    ARROW_ASSIGN_OR_RAISE(maxes_, SortKeys::Of(batch->column(1)));
    return Status::OK();
  }

  Wanted WantedOf(const SortKey& key) const {
    if (value_type_->id() != arrow::Type::FLOAT && value_type_->id() != arrow::Type::DOUBLE)
      return {key, key};
    const SortKey plus_zero{uint64_t{1} << 63, {}};
    const SortKey minus_zero{plus_zero.prefix - 1, {}};
    if (key == plus_zero || key == minus_zero) return {minus_zero, plus_zero};
    return {key, key};
  }

  Result<std::shared_ptr<arrow::RecordBatch>> ReadPage(const Page& page) const {
    const uint64_t rows = std::min(batch_size_, num_rows() - page.first_row);
    ARROW_ASSIGN_OR_RAISE(auto batch, data_->Read(columns_, page.first_row, rows));
    if (batch->column(0)->null_count() != static_cast<int64_t>(page.null_count) ||
        batch->column(1)->null_count() != 0) {
      return Error(ErrorKind::kCorrupt,
                   "B-tree {}: the page at row {} has {} nulls, page_lookup says {}", name_,
                   page.first_row, batch->column(0)->null_count(), page.null_count);
    }
    return batch;
  }

  // Nulls come first, so a page's nulls are its first rows.
  Status FindNulls(std::vector<uint64_t>& ids) const {
    for (const Page& page : pages_) {
      if (page.null_count == 0) continue;
      ARROW_ASSIGN_OR_RAISE(const auto batch, ReadPage(page));
      AppendIds(*batch, 0, page.null_count, ids);
    }
    return Status::OK();
  }

  Status FindValue(const Wanted& wanted, std::vector<uint64_t>& ids) const {
    for (size_t i = 0; i < pages_.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      if (maxes_->IsNull(row) || maxes_->At(row) < wanted.lowest) continue;
      if (!mins_->IsNull(row) && mins_->At(row) > wanted.highest) continue;
      ARROW_ASSIGN_OR_RAISE(const auto batch, ReadPage(pages_[i]));
      ARROW_ASSIGN_OR_RAISE(const SortKeys keys, SortKeys::Of(batch->column(0)));
      const int64_t first = FirstWhere(keys, pages_[i].null_count, batch->num_rows(),
                                       [&](const SortKey& key) { return key >= wanted.lowest; });
      const int64_t last = FirstWhere(keys, first, batch->num_rows(),
                                      [&](const SortKey& key) { return key > wanted.highest; });
      AppendIds(*batch, first, last, ids);
    }
    return Status::OK();
  }

  // The first row of [first, last) from which on `holds` is true.
  template <typename Holds>
  static int64_t FirstWhere(const SortKeys& keys, int64_t first, int64_t last, const Holds& holds) {
    while (first < last) {
      const int64_t middle = first + (last - first) / 2;
      // Of a damaged file only: nulls are first.
      if (keys.IsNull(middle) || !holds(keys.At(middle))) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }

  static void AppendIds(const arrow::RecordBatch& batch, int64_t first, int64_t last,
                        std::vector<uint64_t>& ids) {
    const auto& column = static_cast<const arrow::UInt64Array&>(*batch.column(1));
    ids.insert(ids.end(), column.raw_values() + first, column.raw_values() + last);
  }

  LanceBTree() = default;

  std::string name_;
  std::shared_ptr<FileReader> data_;
  std::vector<ColumnRequest> columns_;
  std::shared_ptr<arrow::DataType> value_type_;
  uint64_t batch_size_ = 1;
  std::vector<Page> pages_;
  std::optional<SortKeys> mins_;
  std::optional<SortKeys> maxes_;
};

}  // namespace

Result<std::shared_ptr<BTreeReader>> BTreeReader::Open(object_store::ObjectStore& store,
                                                       const std::string& directory) {
  return LanceBTree::Open(store, directory);
}

}  // namespace sarissa::lance
