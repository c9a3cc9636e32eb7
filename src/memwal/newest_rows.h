// Which rows of some generations are the newest of their keys: the newest-wins rule of a merge.
//
// Keys are compared byte by byte; hashes only find them. Within a generation a later row wins (rows
// that its deletion vector masks do not count), among generations the one that was added later. A
// newest row that is a tombstone hides all others of its key and is no live row itself. Holds all
// keys in memory and no other column. Used by one thread at a time; reads are thread safe.
#pragma once

#include <arrow/array.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lance/table/table.h"

namespace sarissa::memwal {

class NewestRows {
 public:
  // Scans the keys of the next newer generation. kCorrupt for a null key, kUnsupported for a key
  // that is no string.
  Status Add(const lance::Table& generation, const std::string& key_column);

  bool Contains(std::string_view key) const { return newest_.contains(key); }
  // True if the row of `key` at `address` of the `generation`-th added one is its key's newest and
  // no tombstone.
  bool IsLive(std::string_view key, size_t generation, lance::RowAddress address) const;
  size_t keys() const { return newest_.size(); }

 private:
  struct Row {
    lance::RowAddress address = 0;
    uint32_t generation = 0;
    bool tombstone = false;
  };

  std::vector<std::shared_ptr<arrow::Array>> columns_;  // own the bytes of the map's keys
  std::unordered_map<std::string_view, Row> newest_;
  uint32_t generations_ = 0;
};

}  // namespace sarissa::memwal
