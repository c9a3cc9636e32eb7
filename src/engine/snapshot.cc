#include "engine/snapshot.h"

namespace sarissa::engine {

Result<std::shared_ptr<const GenerationKeyMap>> GenerationKeyMap::Build(
    const std::vector<Source>& sources) {
  auto map = std::make_shared<GenerationKeyMap>();
  size_t rows = 0;
  for (const Source& source : sources) {
    if (source.generation == nullptr) {
      map->keys_.push_back(nullptr);
      continue;
    }
    ARROW_ASSIGN_OR_RAISE(auto keys, source.generation->Keys());
    rows += keys->rows.size();
    map->keys_.push_back(std::move(keys));
  }
  map->newest_.reserve(rows);
  for (size_t source = 0; source < sources.size(); ++source) {
    if (map->keys_[source] == nullptr) continue;
    for (const auto& [key, address] : map->keys_[source]->rows) {
      map->newest_.insert_or_assign(key, GenerationRow{static_cast<uint32_t>(source), address});
    }
  }
  return std::shared_ptr<const GenerationKeyMap>(std::move(map));
}

bool Snapshot::HiddenByNewer(std::string_view key, size_t source) const {
  if (const GenerationRow* newest = generation_keys->Find(key);
      newest != nullptr && newest->source > source)
    return true;
  for (size_t later = sources.size(); later-- > source + 1;) {
    if (sources[later].memtable && sources[later].memtable->Find(key)) return true;
  }
  return false;
}

}  // namespace sarissa::engine
