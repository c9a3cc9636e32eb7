#include "engine/newest_version.h"

#include "lance/table/manifest.h"

namespace sarissa::engine {

Result<std::shared_ptr<lance::Table>> NewestVersion(const std::shared_ptr<lance::Table>& table) {
  const lance::TableContext& context = table->context();
  const std::string next =
      table->path() + "/_versions/" + lance::ManifestName(table->version().Next());
  const auto head = context.store->Head(next);
  if (!head.ok()) {
    if (Is(head.status(), ErrorKind::kNotFound)) return table;
    return head.status();
  }
  return lance::Table::Open(context, table->path());
}

}  // namespace sarissa::engine
