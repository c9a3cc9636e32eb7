#include "lance/table/take.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lance/table/fragment.h"
#include "lance/table/row_selection.h"
#include "lance/table/scan.h"

namespace sarissa::lance {
namespace {

Status NoSuchRow(const Table& table, RowAddress address) {
  return Error(ErrorKind::kNotFound,
               "table '{}' version {} has no row at address {} (fragment {}, offset {})",
               table.path(), table.version(), address, address >> 32, address & 0xFFFFFFFF);
}

// `addresses` are ascending and of one fragment.
Result<std::shared_ptr<arrow::RecordBatch>> TakeFromFragment(const Table& table, OpenFiles& files,
                                                             std::span<const RowAddress> addresses,
                                                             const Schema& projection) {
  const auto* entry = FindFragment(table.manifest(), addresses[0] >> 32);
  if (entry == nullptr) return NoSuchRow(table, addresses[0]);
  ARROW_ASSIGN_OR_RAISE(const auto fragment, Fragment::Open(files, *entry, projection));
  std::vector<uint64_t> offsets;
  offsets.reserve(addresses.size());
  for (const RowAddress address : addresses) {
    const auto offset = static_cast<uint32_t>(address);
    if (offset >= fragment->physical_rows() || fragment->deletions().Contains(offset))
      return NoSuchRow(table, address);
    offsets.push_back(offset);
  }
  return fragment->Take(offsets);
}

}  // namespace

Result<std::shared_ptr<arrow::RecordBatch>> TakeAddresses(
    const Table& table, OpenFiles& files, std::span<const RowAddress> addresses,
    const std::optional<std::vector<std::string>>& columns) {
  ARROW_ASSIGN_OR_RAISE(const Schema projection, Project(table.schema(), columns));
  std::vector<RowAddress> sorted(addresses.begin(), addresses.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());

  std::vector<std::shared_ptr<arrow::RecordBatch>> parts;
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::upper_bound(begin, sorted.end(), *begin | 0xFFFFFFFF);
    ARROW_ASSIGN_OR_RAISE(auto part, TakeFromFragment(table, files, {begin, end}, projection));
    parts.push_back(std::move(part));
    begin = end;
  }
  ARROW_ASSIGN_OR_RAISE(const auto batch, ConcatenateParts(projection.arrow_schema(), parts));
  if (std::equal(sorted.begin(), sorted.end(), addresses.begin(), addresses.end())) return batch;

  std::vector<int64_t> order;
  order.reserve(addresses.size());
  for (const RowAddress address : addresses) {
    order.push_back(std::lower_bound(sorted.begin(), sorted.end(), address) - sorted.begin());
  }
  return TakeRows(*batch, order);
}

}  // namespace sarissa::lance
