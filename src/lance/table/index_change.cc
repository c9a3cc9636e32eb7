#include <algorithm>
#include <set>

#include "lance/table/changes.h"
#include "lance/table/conflict.h"

namespace sarissa::lance {
namespace {

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::set<std::string> UuidsOf(const pb::table::IndexSection& section, const std::string& name) {
  std::set<std::string> out;
  for (const auto& index : section.indices()) {
    if (index.name() == name) out.insert(index.uuid().uuid());
  }
  return out;
}

}  // namespace

IndexChange::IndexChange(const VersionedManifest& base, std::vector<pb::table::IndexMetadata> added,
                         std::vector<std::string> removed)
    : base_indices_(base.loaded.indices), added_(std::move(added)), removed_(std::move(removed)) {}

Status IndexChange::CheckOver(const pb::transaction::Transaction& theirs, TableVersion version) {
  const bool covers_fragments = std::any_of(added_.begin(), added_.end(), [](const auto& index) {
    return !index.fragment_bitmap().empty();
  });
  return CheckIndicesOver(theirs, version, covers_fragments);
}

Status IndexChange::Apply(const VersionedManifest& newest, LoadedManifest& next,
                          pb::transaction::Transaction& transaction) {
  const auto& current = newest.loaded.indices;
  auto* operation = transaction.mutable_create_index();
  for (const std::string& name : removed_) {
    if (UuidsOf(base_indices_, name) != UuidsOf(current, name)) {
      return Error(ErrorKind::kConflict, "index entry '{}' was changed by another writer", name);
    }
  }
  for (const auto& index : added_) {
    if (!Contains(removed_, index.name()) && !UuidsOf(current, index.name()).empty()) {
      return Error(ErrorKind::kConflict, "there is an index entry '{}' already", index.name());
    }
  }
  auto* indices = next.indices.mutable_indices();
  const auto first_gone = std::remove_if(indices->begin(), indices->end(), [&](const auto& index) {
    return Contains(removed_, index.name());
  });
  indices->erase(first_gone, indices->end());
  for (const auto& index : current.indices()) {
    if (Contains(removed_, index.name())) *operation->add_removed_indices() = index;
  }
  for (const auto& index : added_) {
    *indices->Add() = index;
    *operation->add_new_indices() = index;
  }
  return Status::OK();
}

}  // namespace sarissa::lance
