// One consistent look at a table: {base version, generations of every shard, memtables of the own
// shard}. Every read (list, get, blob, fold, merge, export) goes through one.
//
// Sources are in one order, oldest first: the base, then the shards by ascending id, within a shard
// generations ascending, then its memtables. A row is hidden when a later source has its key (S13,
// and the rule for ids written through two shards: the shard with the greater id wins). Immutable
// and thread safe; holds what it needs alive.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/generation_reader.h"
#include "lance/table/table.h"
#include "memwal/memtable.h"

namespace sarissa::engine {

// One place rows come from; exactly one member is set.
struct Source {
  std::shared_ptr<lance::Table> base;
  std::shared_ptr<GenerationReader> generation;
  std::optional<memwal::MemtableView> memtable;
};

// Where the newest row of a key is among the generations.
struct GenerationRow {
  uint32_t source = 0;
  lance::RowAddress address = 0;
};

// Key -> newest generation row, over a fixed list of generations. Shared by all snapshots with that
// list.
class GenerationKeyMap {
 public:
  static Result<std::shared_ptr<const GenerationKeyMap>> Build(const std::vector<Source>& sources);
  const GenerationRow* Find(std::string_view key) const {
    const auto found = newest_.find(key);
    return found == newest_.end() ? nullptr : &found->second;
  }
  size_t size() const { return newest_.size(); }

 private:
  std::vector<std::shared_ptr<const GenerationKeys>> keys_;  // own the bytes of the map's keys
  std::unordered_map<std::string_view, GenerationRow> newest_;
};

struct Snapshot {
  std::vector<Source> sources;  // oldest first; sources[0] is the base
  std::shared_ptr<const GenerationKeyMap> generation_keys;
  std::string key_column;

  // True if a source after `source` has `key`.
  bool HiddenByNewer(std::string_view key, size_t source) const;
};

}  // namespace sarissa::engine
