// One generation of one shard, opened for reading: its rows, its keys, its bloom filter. Immutable
// and thread safe; cached by the table handle while the shard manifest names it.
//
// Everything is read through the checksums that the flush left beside the files, where it did:
// kCorrupt names the file and the place.
#pragma once

#include <arrow/array.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/strong_type.h"
#include "base/uuid.h"
#include "lance/table/table.h"
#include "object_store/verified_store.h"

namespace sarissa::engine {

// The live keys of a generation with the address of each one's row.
struct GenerationKeys {
  std::vector<std::shared_ptr<arrow::Array>> columns;  // own the bytes that the views below borrow
  std::vector<std::pair<std::string_view, lance::RowAddress>> rows;
};

class GenerationReader {
 public:
  // `folder` is the generation's path. Opens the table, reads no rows. What `context` points at
  // outlives the reader.
  static Result<std::shared_ptr<GenerationReader>> Open(const lance::TableContext& context,
                                                        const std::string& folder,
                                                        std::string key_column);

  const lance::Table& table() const { return *table_; }
  // Read once, then kept.
  Result<std::shared_ptr<const GenerationKeys>> Keys();

 private:
  GenerationReader(std::unique_ptr<object_store::VerifiedStore> store,
                   std::shared_ptr<lance::Table> table, std::string key_column)
      : store_(std::move(store)), table_(std::move(table)), key_column_(std::move(key_column)) {}

  const std::unique_ptr<object_store::VerifiedStore> store_;  // outlives the table
  const std::shared_ptr<lance::Table> table_;
  const std::string key_column_;
  std::mutex mutex_;  // leaf; guards keys_ only, never held while reading
  std::shared_ptr<const GenerationKeys> keys_;
};

}  // namespace sarissa::engine
