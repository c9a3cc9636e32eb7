#include "engine/dictionary_limit.h"

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/record_batch.h>
#include <gtest/gtest.h>

namespace sarissa::engine {
namespace {

std::shared_ptr<arrow::Schema> RoleSchema() {
  return arrow::schema(
      {arrow::field("role", arrow::dictionary(arrow::int8(), arrow::utf8()), false)});
}

std::shared_ptr<arrow::RecordBatch> Roles(int first, int count) {
  arrow::StringBuilder values;
  arrow::Int8Builder indices;
  for (int i = 0; i < count; ++i) {
    EXPECT_TRUE(values.Append(fmt::format("role{}", first + i)).ok());
    EXPECT_TRUE(indices.Append(static_cast<int8_t>(i)).ok());
  }
  auto array = arrow::DictionaryArray::FromArrays(
      RoleSchema()->field(0)->type(), indices.Finish().ValueOrDie(), values.Finish().ValueOrDie());
  return arrow::RecordBatch::Make(RoleSchema(), count, {array.ValueOrDie()});
}

TEST(DictionaryLimit, The129thValueIsRefusedAndNamesTheLimit) {
  DictionaryLimit limit(*RoleSchema());
  EXPECT_EQ(*limit.Admit({Roles(0, 100)}, 0), DictionaryLimit::Verdict::kAdmitted);
  EXPECT_EQ(*limit.Admit({Roles(50, 78)}, 0), DictionaryLimit::Verdict::kAdmitted);
  const auto refused = limit.Admit({Roles(128, 1)}, 0);
  EXPECT_TRUE(Is(refused.status(), ErrorKind::kInvalid));
  EXPECT_NE(refused.status().message().find("128"), std::string::npos);
  EXPECT_EQ(*limit.Admit({Roles(0, 128)}, 1'000'000), DictionaryLimit::Verdict::kAdmitted)
      << "known values are free";
}

TEST(DictionaryLimit, StoredValuesDecideWhenTheTableIsLarge) {
  DictionaryLimit limit(*RoleSchema());
  EXPECT_EQ(*limit.Admit({Roles(0, 1)}, 1000), DictionaryLimit::Verdict::kNeedsStored);
  limit.AddStored(*Roles(10, 127));
  limit.StoredComplete();
  EXPECT_EQ(*limit.Admit({Roles(0, 1)}, 1000), DictionaryLimit::Verdict::kAdmitted);
  EXPECT_TRUE(Is(limit.Admit({Roles(1, 1)}, 1000).status(), ErrorKind::kInvalid));
}

TEST(DictionaryLimit, SmallTablesNeedNoRead) {
  DictionaryLimit limit(*RoleSchema());
  EXPECT_EQ(*limit.Admit({Roles(0, 3)}, 100), DictionaryLimit::Verdict::kAdmitted);
}

}  // namespace
}  // namespace sarissa::engine
