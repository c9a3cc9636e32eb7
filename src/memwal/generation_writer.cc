#include "memwal/generation_writer.h"

#include <arrow/array/concatenate.h>

#include "base/sync_point.h"
#include "lance/index/bloom_filter.h"
#include "lance/index/btree.h"
#include "lance/table/table.h"
#include "memwal/names.h"
#include "memwal/position_sidecar.h"
#include "object_store/checksum_recorder.h"

namespace sarissa::memwal {
namespace {

std::vector<uint32_t> SupersededRows(const MemtableView& rows) {
  std::vector<uint32_t> masked;
  for (const auto& batch : rows.batches()) {
    for (int64_t row = 0; row < batch->batch->num_rows(); ++row) {
      if (rows.Superseded(*batch, row))
        masked.push_back(batch->first_row + static_cast<uint32_t>(row));
    }
  }
  return masked;
}

std::vector<RowPositions> PositionsOf(const MemtableView& rows) {
  std::vector<RowPositions> runs;
  for (const auto& batch : rows.batches()) {
    const auto count = static_cast<uint32_t>(batch->batch->num_rows());
    const bool extends =
        !runs.empty() && runs.back().position == batch->log.position &&
        runs.back().first_row_in_entry + runs.back().rows == batch->log.first_row_in_entry;
    if (extends) {
      runs.back().rows += count;
    } else {
      runs.push_back({batch->log.position, batch->log.first_row_in_entry, count});
    }
  }
  return runs;
}

// The key column of all rows as one array; it is small beside the rows.
Result<std::shared_ptr<arrow::Array>> KeyColumn(const MemtableView& rows, int key_column) {
  std::vector<std::shared_ptr<arrow::Array>> parts;
  parts.reserve(rows.batches().size());
  for (const auto& batch : rows.batches()) parts.push_back(batch->batch->column(key_column));
  return arrow::Concatenate(parts);
}

Status WriteKeyIndices(object_store::ObjectStore& store, lance::FileVersion version,
                       const std::string& folder, const std::shared_ptr<arrow::Array>& keys) {
  std::vector<uint64_t> ids(static_cast<size_t>(keys->length()));
  for (size_t row = 0; row < ids.size(); ++row) ids[row] = row;
  lance::BTreeOptions options;
  options.version = version;
  ARROW_RETURN_NOT_OK(lance::WriteBTree(store, folder + "/_pk_index", keys, ids, options));

  lance::BloomFilter filter = lance::BloomFilter::ForKeys(static_cast<uint64_t>(keys->length()));
  const std::shared_ptr<arrow::Array> columns[] = {keys};
  for (int64_t row = 0; row < keys->length(); ++row) {
    ARROW_ASSIGN_OR_RAISE(const uint64_t hash, lance::KeyHash(columns, row));
    filter.Add(hash);
  }
  return store.Put(folder + "/bloom_filter.bin", filter.bytes(), object_store::PutMode::kIfAbsent);
}

}  // namespace

Result<pb::mem_wal::SsTable> WriteGeneration(const GenerationTarget& target,
                                             const MemtableView& rows) {
  const std::string name = GenerationFolder(target.env->random->Next(), rows.generation());
  const std::string folder = target.shard_prefix + name;
  object_store::ChecksumRecorder store(*target.store, folder + "/");
  const lance::TableContext context{&store, target.env};

  size_t next = 0;
  const auto next_batch = [&]() -> Result<std::shared_ptr<arrow::RecordBatch>> {
    if (next == rows.batches().size()) return nullptr;
    return rows.batches()[next++]->batch;
  };
  ARROW_RETURN_NOT_OK(lance::WriteSingleFragmentTable(context, folder, *target.storage_schema,
                                                      target.file_version, next_batch,
                                                      SupersededRows(rows)));
  SARISSA_SYNC_POINT("flush.after_data");

  ARROW_ASSIGN_OR_RAISE(const auto keys, KeyColumn(rows, target.key_column));
  ARROW_RETURN_NOT_OK(WriteKeyIndices(store, target.file_version, folder, keys));
  SARISSA_SYNC_POINT("flush.after_index");

  const std::string positions = EncodePositionSidecar(PositionsOf(rows));
  ARROW_RETURN_NOT_OK(
      store.Put(folder + "/" + kPositionSidecarName,
                {reinterpret_cast<const uint8_t*>(positions.data()), positions.size()},
                object_store::PutMode::kIfAbsent));
  ARROW_RETURN_NOT_OK(store.PutSidecar());

  int64_t bytes = 0;
  int64_t key_bytes = 0;
  for (const auto& batch : rows.batches()) bytes += PinnedBytes(*batch->batch);
  for (const auto& buffer : keys->data()->buffers) {
    if (buffer != nullptr) key_bytes += buffer->size();
  }
  pb::mem_wal::SsTable entry;
  entry.set_generation(rows.generation().value());
  entry.set_path(name);
  entry.set_in_memory_bytes(static_cast<uint64_t>(bytes));
  entry.set_physical_rows(rows.rows());
  entry.set_primary_key_bytes(static_cast<uint64_t>(key_bytes));
  return entry;
}

}  // namespace sarissa::memwal
