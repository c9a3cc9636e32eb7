#include "engine/generation_reader.h"

#include "memwal/key_column.h"

namespace sarissa::engine {

Result<std::shared_ptr<GenerationReader>> GenerationReader::Open(const lance::TableContext& context,
                                                                 const std::string& folder,
                                                                 std::string key_column) {
  ARROW_ASSIGN_OR_RAISE(auto store, object_store::VerifiedStore::Open(*context.store, folder + "/",
                                                                      *context.env->metrics));
  ARROW_ASSIGN_OR_RAISE(auto table, lance::Table::Open({store.get(), context.env}, folder));
  return std::shared_ptr<GenerationReader>(
      new GenerationReader(std::move(store), std::move(table), std::move(key_column)));
}

Result<std::shared_ptr<const GenerationKeys>> GenerationReader::Keys() {
  {
    const std::scoped_lock lock(mutex_);
    if (keys_ != nullptr) return keys_;
  }
  lance::ScanOptions options;
  options.columns = {key_column_};
  options.with_row_address = true;
  options.batch_rows = 64 << 10;
  ARROW_ASSIGN_OR_RAISE(auto stream, table_->Scan(options));
  auto keys = std::make_shared<GenerationKeys>();
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) break;
    const auto& column = batch->column(0);
    const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch->column(1));
    keys->columns.push_back(column);
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      keys->rows.emplace_back(memwal::KeyBytes(*column, row), addresses.Value(row));
    }
  }
  const std::scoped_lock lock(mutex_);
  if (keys_ == nullptr) keys_ = std::move(keys);
  return keys_;
}

}  // namespace sarissa::engine
