#include "lance/table/table.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/builder.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "env/mapped_range.h"
#include "env/posix/posix_env.h"
#include "lance/table/manifest.h"
#include "object_store/local_store.h"
#include "tests/env/scratch_directory.h"
#include "tests/lance/table_world.h"

namespace sarissa::lance {
namespace {

using test::Rows;

Result<std::shared_ptr<Table>> AppendRows(const std::shared_ptr<Table>& table, int64_t first,
                                          int64_t count) {
  ARROW_ASSIGN_OR_RAISE(const auto appender, table->NewAppender());
  for (int64_t at = first; at < first + count; at += 100) {
    ARROW_RETURN_NOT_OK(appender->Write(*Rows(at, std::min<int64_t>(100, first + count - at))));
  }
  ARROW_ASSIGN_OR_RAISE(auto fragment, appender->Finish());
  return table->CommitAppend({std::move(fragment)});
}

Result<std::vector<std::shared_ptr<arrow::RecordBatch>>> ScanAll(const Table& table,
                                                                 const ScanOptions& options) {
  ARROW_ASSIGN_OR_RAISE(const auto stream, table.Scan(options));
  std::vector<std::shared_ptr<arrow::RecordBatch>> out;
  while (true) {
    ARROW_ASSIGN_OR_RAISE(auto batch, stream->Next());
    if (batch == nullptr) return out;
    ARROW_RETURN_NOT_OK(batch->ValidateFull());
    if (!batch->schema()->Equals(*stream->schema()))
      return Status::Invalid("a batch of another schema");
    out.push_back(std::move(batch));
  }
}

std::vector<int64_t> IdsOf(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches) {
  std::vector<int64_t> out;
  for (const auto& batch : batches) {
    const auto& ids = static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("id"));
    const auto names = batch->GetColumnByName("name");
    for (int64_t i = 0; i < ids.length(); ++i) {
      out.push_back(ids.Value(i));
      if (names == nullptr) continue;
      EXPECT_EQ(names->IsNull(i), ids.Value(i) % 7 == 0);
      if (names->IsValid(i)) {
        EXPECT_EQ(static_cast<const arrow::StringArray&>(*names).GetView(i),
                  "n" + std::to_string(ids.Value(i)));
      }
    }
  }
  return out;
}

std::vector<int64_t> Range(int64_t first, int64_t last) {
  std::vector<int64_t> out;
  for (int64_t i = first; i < last; ++i) out.push_back(i);
  return out;
}

class TableTest : public ::testing::TestWithParam<FileVersion> {
 protected:
  std::shared_ptr<Table> MakeTable() {
    CreateOptions options;
    options.version = GetParam();
    auto table = test::CreateRowTable(world_.context(), "t", options);
    EXPECT_TRUE(table.ok()) << table.status().ToString();
    return *table;
  }
  test::TableWorld world_;
};

INSTANTIATE_TEST_SUITE_P(Versions, TableTest, ::testing::Values(kFileV21, kFileV22),
                         [](const auto& param) { return "V" + std::to_string(param.param.minor); });

TEST_P(TableTest, ScansInPhysicalOrderAcrossFragments) {
  auto table = MakeTable();
  ASSERT_VALUE(const auto none, ScanAll(*table, {}));
  EXPECT_TRUE(none.empty());
  ASSERT_VALUE(table, AppendRows(table, 0, 250));
  ASSERT_VALUE(table, AppendRows(table, 250, 5));
  EXPECT_EQ(table->CountRows(), 255u);
  ScanOptions options;
  options.batch_rows = 64;
  ASSERT_VALUE(const auto batches, ScanAll(*table, options));
  EXPECT_EQ(IdsOf(batches), Range(0, 255));
  EXPECT_EQ(batches[0]->num_rows(), 64);
  ASSERT_VALUE(const auto reopened, Table::Open(world_.context(), "t"));
  ASSERT_VALUE(const auto again, ScanAll(*reopened, {}));
  EXPECT_EQ(IdsOf(again), Range(0, 255));
}

TEST_P(TableTest, ProjectionOrderAndRowAddresses) {
  auto table = MakeTable();
  ASSERT_VALUE(table, AppendRows(table, 0, 10));
  ASSERT_VALUE(table, AppendRows(table, 10, 10));
  ASSERT_VALUE(table, table->CommitDelete(std::vector<RowAddress>{0, 3, (1ULL << 32) + 9}));
  ScanOptions options;
  options.columns = {"name", "id"};
  options.with_row_address = true;
  ASSERT_VALUE(const auto batches, ScanAll(*table, options));
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0]->schema()->field_names(),
            (std::vector<std::string>{"name", "id", "_rowaddr"}));
  EXPECT_EQ(batches[0]->num_rows(), 8);
  const auto& addresses = static_cast<const arrow::UInt64Array&>(*batches[1]->column(2));
  EXPECT_EQ(addresses.Value(0), 1ULL << 32);
  EXPECT_EQ(addresses.length(), 9);

  options.columns = std::vector<std::string>{};
  ASSERT_VALUE(const auto only_addresses, ScanAll(*table, options));
  EXPECT_EQ(only_addresses[0]->num_rows(), 8);
  options.columns = {"nope"};
  ASSERT_KIND(ErrorKind::kInvalid, ScanAll(*table, options));
}

TEST_P(TableTest, DeletedRowsAreGoneFromScanCountAndTake) {
  auto table = MakeTable();
  ASSERT_VALUE(table, AppendRows(table, 0, 100));
  std::vector<RowAddress> gone;
  std::vector<int64_t> left;
  for (int64_t i = 0; i < 100; ++i) {
    if (i < 30 || i % 3 == 0) {
      gone.push_back(static_cast<RowAddress>(i));
    } else {
      left.push_back(i);
    }
  }
  ASSERT_VALUE(const auto before, Table::Open(world_.context(), "t"));
  ASSERT_VALUE(table, table->CommitDelete(gone));
  ScanOptions options;
  options.batch_rows = 10;
  ASSERT_VALUE(const auto batches, ScanAll(*table, options));
  EXPECT_EQ(IdsOf(batches), left);
  EXPECT_EQ(table->CountRows(), left.size());
  EXPECT_EQ(before->CountRows(), 100u);
  ASSERT_VALUE(const auto old, ScanAll(*before, {}));
  EXPECT_EQ(IdsOf(old), Range(0, 100));
  const auto taken = table->Take(std::vector<RowAddress>{31, 33}, std::nullopt);
  ASSERT_KIND(ErrorKind::kNotFound, taken);
  EXPECT_NE(taken.status().message().find("33"), std::string::npos);
}

TEST_P(TableTest, TakeKeepsTheOrderAskedForAndRepeats) {
  auto table = MakeTable();
  ASSERT_VALUE(table, AppendRows(table, 0, 300));
  ASSERT_VALUE(table, AppendRows(table, 300, 300));
  const RowAddress second = 1ULL << 32;
  const std::vector<RowAddress> wanted = {second + 5, 7, second, 7, 299};
  ASSERT_VALUE(const auto batch, table->Take(wanted, std::nullopt));
  EXPECT_EQ(IdsOf({batch}), (std::vector<int64_t>{305, 7, 300, 7, 299}));
  ASSERT_VALUE(const auto one, table->Take(std::vector<RowAddress>{second + 1}, {{"id"}}));
  EXPECT_EQ(one->num_columns(), 1);
  EXPECT_EQ(IdsOf({one}), (std::vector<int64_t>{301}));
  ASSERT_VALUE(const auto none, table->Take({}, std::nullopt));
  EXPECT_EQ(none->num_rows(), 0);
  for (const RowAddress bad : {RowAddress{300}, second + 300, RowAddress{2} << 32}) {
    ASSERT_KIND(ErrorKind::kNotFound, table->Take(std::vector<RowAddress>{bad}, std::nullopt));
  }
}

TEST_P(TableTest, OlderVersionsStayReadable) {
  auto table = MakeTable();
  ASSERT_VALUE(table, AppendRows(table, 0, 10));
  ASSERT_VALUE(table, AppendRows(table, 10, 10));
  ASSERT_VALUE(const auto old, Table::Open(world_.context(), "t", TableVersion(2)));
  EXPECT_EQ(old->CountRows(), 10u);
  ASSERT_KIND(ErrorKind::kNotFound, Table::Open(world_.context(), "t", TableVersion(9)));
  ASSERT_KIND(ErrorKind::kNotFound, Table::Open(world_.context(), "u"));
}

TEST_P(TableTest, AnAppenderWithoutRowsLeavesTheVersionAlone) {
  auto table = MakeTable();
  ASSERT_VALUE(const auto appender, table->NewAppender());
  ASSERT_TRUE(appender->Write(*Rows(0, 0)).ok());
  ASSERT_VALUE(auto fragment, appender->Finish());
  ASSERT_VALUE(const auto same, table->CommitAppend({fragment}));
  EXPECT_EQ(same->version(), TableVersion(1));
  ASSERT_VALUE(const auto listing, world_.store().List("t/data/", {}));
  EXPECT_TRUE(listing.objects.empty());
}

TEST_P(TableTest, AColumnWithoutAFileIsNull) {
  auto table = MakeTable();
  ASSERT_VALUE(const auto appender, table->NewAppender());
  ASSERT_TRUE(appender->Write(*Rows(1, 5)).ok());
  ASSERT_VALUE(auto fragment, appender->Finish());
  fragment.fragment.mutable_files(0)->set_column_indices(1, -1);
  ASSERT_VALUE(table, table->CommitAppend({fragment}));
  ASSERT_VALUE(const auto batches, ScanAll(*table, {}));
  EXPECT_EQ(batches[0]->column(1)->null_count(), 5);
  ASSERT_VALUE(const auto taken, table->Take(std::vector<RowAddress>{2}, std::nullopt));
  EXPECT_TRUE(taken->column(1)->IsNull(0));
}

TEST_P(TableTest, FilesThatDoNotFitTheManifestAreCorrupt) {
  for (const int damage : {0, 1, 2, 3}) {
    test::TableWorld world;
    CreateOptions options;
    options.version = GetParam();
    ASSERT_VALUE(auto table, test::CreateRowTable(world.context(), "t", options));
    ASSERT_VALUE(const auto appender, table->NewAppender());
    ASSERT_TRUE(appender->Write(*Rows(1, 5)).ok());
    ASSERT_VALUE(auto fragment, appender->Finish());
    auto* file = fragment.fragment.mutable_files(0);
    if (damage == 0) file->set_file_size_bytes(file->file_size_bytes() + 1);
    if (damage == 1) file->add_column_indices(0);
    if (damage == 2) file->set_column_indices(1, 17);
    if (damage == 3) file->set_path("../data/" + file->path());
    ASSERT_VALUE(table, table->CommitAppend({fragment}));
    ASSERT_KIND(ErrorKind::kCorrupt, ScanAll(*table, {}));
  }
}

TEST_P(TableTest, ASingleFragmentTableIsOnePutPerFile) {
  ASSERT_VALUE(const auto schema, Schema::FromArrow(*test::RowSchema()));
  int64_t next = 0;
  const auto batches = [&]() -> Result<std::shared_ptr<arrow::RecordBatch>> {
    if (next == 300) return nullptr;
    return Rows(std::exchange(next, next + 100), 100);
  };
  ASSERT_VALUE(const auto table, WriteSingleFragmentTable(world_.context(), "g", schema, GetParam(),
                                                          batches, {5, 299, 5}, {{"k", "v"}}));
  EXPECT_EQ(table->version(), TableVersion(1));
  EXPECT_EQ(table->CountRows(), 298u);
  EXPECT_EQ(table->manifest().fragments(0).deletion_file().file_type(),
            pb::table::DeletionFile::BITMAP);
  object_store::ListOptions recursive;
  recursive.recursive = true;
  ASSERT_VALUE(const auto listing, world_.store().List("g/", recursive));
  EXPECT_EQ(listing.objects.size(), 3u);
  ASSERT_VALUE(const auto reopened, Table::Open(world_.context(), "g"));
  ASSERT_VALUE(const auto scanned, ScanAll(*reopened, {}));
  auto expected = Range(0, 299);
  expected.erase(expected.begin() + 5);
  EXPECT_EQ(IdsOf(scanned), expected);
  next = 0;
  ASSERT_KIND(ErrorKind::kAlreadyExists,
              WriteSingleFragmentTable(world_.context(), "g", schema, GetParam(), batches, {}));
}

TEST_P(TableTest, LargeValuesComeRowByRowAndWithoutACopyFromLocalFiles) {
  test::ScratchDirectory directory;
  env::PosixEnv posix;
  ASSERT_VALUE(const auto store,
               object_store::LocalStore::Open(*posix.env().file_system, *posix.env().random,
                                              directory / "root"));
  const TableContext context{store.get(), &posix.env()};
  const auto arrow_schema = arrow::schema({arrow::field("blob", arrow::large_binary())});
  ASSERT_VALUE(const auto schema, Schema::FromArrow(*arrow_schema));
  CreateOptions options;
  options.version = GetParam();
  ASSERT_VALUE(auto table, Table::Create(context, "t", schema, options));
  ASSERT_VALUE(const auto appender, table->NewAppender());
  for (int i = 0; i < 3; ++i) {
    arrow::LargeBinaryBuilder builder;
    ASSERT_TRUE(builder.Append(std::string(3 << 20, static_cast<char>('a' + i))).ok());
    ASSERT_TRUE(
        appender->Write(*arrow::RecordBatch::Make(arrow_schema, 1, {*builder.Finish()})).ok());
  }
  ASSERT_VALUE(auto fragment, appender->Finish());
  ASSERT_VALUE(table, table->CommitAppend({fragment}));
  ASSERT_VALUE(const auto batches, ScanAll(*table, {}));
  ASSERT_EQ(batches.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto& blobs =
        static_cast<const arrow::LargeBinaryArray&>(*batches[static_cast<size_t>(i)]->column(0));
    EXPECT_EQ(blobs.GetView(0), std::string(3 << 20, static_cast<char>('a' + i)));
    EXPECT_TRUE(env::IsMapped(*blobs.value_data()));
  }
  ASSERT_VALUE(const auto one, table->Take(std::vector<RowAddress>{1}, std::nullopt));
  EXPECT_TRUE(
      env::IsMapped(*static_cast<const arrow::LargeBinaryArray&>(*one->column(0)).value_data()));
}

}  // namespace
}  // namespace sarissa::lance
