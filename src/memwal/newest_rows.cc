#include "memwal/newest_rows.h"

#include "memwal/key_column.h"
#include "memwal/storage_schema.h"

namespace sarissa::memwal {
namespace {

constexpr uint64_t kKeysPerBatch = 64 << 10;

}  // namespace

Status NewestRows::Add(const lance::Table& generation, const std::string& key_column) {
  lance::ScanOptions options;
  options.columns = {key_column};
  const bool has_tombstones =
      generation.schema().arrow_schema()->GetFieldIndex(kTombstoneColumn) >= 0;
  if (has_tombstones) options.columns->push_back(kTombstoneColumn);
  options.batch_rows = kKeysPerBatch;
  options.with_row_address = true;
  ARROW_ASSIGN_OR_RAISE(const auto stream, generation.Scan(options));
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) break;
    const auto& keys = batch->column(0);
    ARROW_RETURN_NOT_OK(CheckKeyColumn(*keys, generation.path()));
    const auto* tombstones =
        has_tombstones ? &static_cast<const arrow::BooleanArray&>(*batch->column(1)) : nullptr;
    const auto& addresses = static_cast<const arrow::UInt64Array&>(*batch->columns().back());
    columns_.push_back(keys);
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      newest_.insert_or_assign(
          KeyBytes(*keys, row),
          Row{addresses.Value(row), generations_, tombstones != nullptr && tombstones->Value(row)});
    }
  }
  ++generations_;
  return Status::OK();
}

bool NewestRows::IsLive(std::string_view key, size_t generation, lance::RowAddress address) const {
  const auto found = newest_.find(key);
  return found != newest_.end() && !found->second.tombstone &&
         found->second.generation == generation && found->second.address == address;
}

}  // namespace sarissa::memwal
