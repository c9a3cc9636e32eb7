#include <algorithm>
#include <utility>

#include "lance/table/commit.h"
#include "lance/table/deletion_vector.h"
#include "lance/table/fragment_writer.h"
#include "lance/table/table_at_version.h"

namespace sarissa::lance {

Result<std::shared_ptr<Table>> WriteSingleFragmentTable(
    TableContext context, const std::string& path, const Schema& schema, FileVersion version,
    const std::function<Result<std::shared_ptr<arrow::RecordBatch>>()>& next_batch,
    const std::vector<uint32_t>& deleted_offsets,
    const std::map<std::string, std::string>& config) {
  FragmentWriter writer(*context.store, *context.env->random, path, schema, version);
  while (true) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, next_batch());
    if (batch == nullptr) break;
    ARROW_RETURN_NOT_OK(writer.Write(*batch));
  }
  ARROW_ASSIGN_OR_RAISE(pb::table::DataFragment fragment, writer.Finish());

  CreateOptions options;
  options.version = version;
  options.config = config;
  const DeletionVector deleted(deleted_offsets);
  if (!deleted.empty() && deleted.offsets().back() >= fragment.physical_rows()) {
    return Error(ErrorKind::kInvalid, "row {} is to be masked in a table of {} rows",
                 deleted.offsets().back(), fragment.physical_rows());
  }
  // Rows that are all masked, like no rows, make a table without fragments.
  if (deleted.size() < fragment.physical_rows()) {
    if (!deleted.empty()) {
      // As the original's generations have it: a bitmap, read version 1.
      ARROW_ASSIGN_OR_RAISE(
          *fragment.mutable_deletion_file(),
          WriteDeletionVector(*context.store, *context.env->random, path, /*fragment_id=*/0,
                              /*read_version=*/1, deleted, pb::table::DeletionFile::BITMAP));
    }
    options.fragments.push_back(std::move(fragment));
  }
  ARROW_ASSIGN_OR_RAISE(
      VersionedManifest manifest,
      CommitFirst(context, path, MakeFirstManifest(*context.env, schema, options)));
  return TableAtVersion::Make(context, path, std::move(manifest));
}

}  // namespace sarissa::lance
