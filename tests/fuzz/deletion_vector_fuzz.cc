// Deletion files, both kinds. What is read holds only rows of the fragment, and is the same after
// it was written as a bitmap and read again.
#include <algorithm>
#include <functional>

#include "lance/table/deletion_vector.h"
#include "lance/table/roaring_format.h"
#include "object_store/memory_store.h"
#include "tests/fuzz/fuzz_input.h"

namespace sarissa::lance {
namespace {

using pb::table::DeletionFile;

constexpr uint64_t kRows = 1 << 20;

void CheckKind(std::span<const uint8_t> data, DeletionFile::FileType type) {
  object_store::MemoryStore store;
  pb::table::DataFragment fragment;
  fragment.mutable_deletion_file()->set_file_type(type);
  const std::string name = DeletionFileName("t", 0, fragment.deletion_file());
  SARISSA_CHECK(store.Put(name, data, object_store::PutMode::kOverwrite).ok());
  const auto read = ReadDeletionVector(store, "t", fragment, kRows);
  if (!read.ok()) return;
  const auto offsets = (*read)->offsets();
  SARISSA_CHECK(offsets.empty() || offsets.back() < kRows);
  SARISSA_CHECK(std::adjacent_find(offsets.begin(), offsets.end(), std::greater_equal<>()) ==
                offsets.end());
  const std::string bitmap = SerializeRoaring(offsets);
  const auto again = ParseRoaring(fuzz::BytesOf(bitmap), kRows);
  SARISSA_CHECK(again.ok(), "{}", again.status().message());
  SARISSA_CHECK(std::ranges::equal(*again, offsets));
}

}  // namespace
}  // namespace sarissa::lance

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sarissa::lance::DeletionFile;
  sarissa::lance::CheckKind({data, size}, DeletionFile::BITMAP);
  sarissa::lance::CheckKind({data, size}, DeletionFile::ARROW);
  return 0;
}
