#include "lance/table/table.h"

#include <arrow/util/key_value_metadata.h>

#include <utility>

#include "lance/table/commit.h"
#include "lance/table/table_at_version.h"

namespace sarissa::lance {

LoadedManifest MakeFirstManifest(const env::Env& env, const Schema& schema,
                                 const CreateOptions& options) {
  LoadedManifest out;
  auto& transaction = out.transaction.emplace();
  transaction.set_uuid(env.random->NextUuid().ToString());
  auto* overwrite = transaction.mutable_overwrite();

  schema.ToProto(out.manifest.mutable_fields());
  schema.ToProto(overwrite->mutable_schema());
  if (const auto& metadata = schema.arrow_schema()->metadata()) {
    for (int64_t i = 0; i < metadata->size(); ++i) {
      (*out.manifest.mutable_schema_metadata())[metadata->key(i)] = metadata->value(i);
      (*overwrite->mutable_schema_metadata())[metadata->key(i)] = metadata->value(i);
    }
  }
  for (const auto& [key, value] : options.config) {
    (*out.manifest.mutable_config())[key] = value;
    (*overwrite->mutable_config_upsert_values())[key] = value;
  }
  out.manifest.mutable_data_format()->set_file_format("lance");
  out.manifest.mutable_data_format()->set_version(options.version.ToString());
  uint64_t next_id = 0;
  for (const auto& fragment : options.fragments) {
    *overwrite->add_fragments() = fragment;
    auto* added = out.manifest.add_fragments();
    *added = fragment;
    added->set_id(next_id++);
  }
  for (const auto& index : options.indices) *out.indices.add_indices() = index;
  return out;
}

Result<std::shared_ptr<Table>> Table::Create(TableContext context, std::string path,
                                             const Schema& schema, const CreateOptions& options) {
  if (options.version < kFileV21) {
    return Error(ErrorKind::kUnsupported, "tables of file version {} are not written",
                 options.version.ToString());
  }
  // Version 1 may be gone from a table that lives.
  const auto existing = FindTip(*context.store, path);
  if (existing.ok()) return Error(ErrorKind::kAlreadyExists, "there is a table at '{}'", path);
  if (!Is(existing.status(), ErrorKind::kNotFound)) return existing.status();

  LoadedManifest first = MakeFirstManifest(*context.env, schema, options);
  const std::string transaction_file = TransactionFileName(*first.transaction);
  ARROW_RETURN_NOT_OK(
      WriteTransactionFile(*context.store, path, transaction_file, *first.transaction));
  first.manifest.set_transaction_file(transaction_file);
  ARROW_ASSIGN_OR_RAISE(VersionedManifest manifest, CommitFirst(context, path, std::move(first)));
  WriteVersionHint(*context.store, path, manifest.version);
  return TableAtVersion::Make(context, std::move(path), std::move(manifest));
}

Result<std::shared_ptr<Table>> Table::Open(TableContext context, std::string path,
                                           std::optional<TableVersion> version) {
  if (version) {
    ARROW_ASSIGN_OR_RAISE(VersionedManifest manifest, ReadVersion(*context.store, path, *version));
    return TableAtVersion::Make(context, std::move(path), std::move(manifest));
  }
  ARROW_ASSIGN_OR_RAISE(TableTip tip, FindTip(*context.store, path));
  return TableAtVersion::Make(context, std::move(path), std::move(tip.newest));
}

}  // namespace sarissa::lance
