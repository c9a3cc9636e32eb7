// What a table needs, for tests: a memory store, a clock that stands still, seeded randomness; and
// small tables of rows.
#pragma once

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "env/sim/sim_clock.h"
#include "env/sim/sim_random.h"
#include "lance/table/table.h"
#include "object_store/memory_store.h"

// Fails the test, at the caller's line, unless `expression` is OK; else binds its value.
#define SARISSA_CONCAT_2(a, b) a##b
#define SARISSA_CONCAT(a, b) SARISSA_CONCAT_2(a, b)
#define ASSERT_VALUE(declaration, expression) \
  ASSERT_VALUE_2(SARISSA_CONCAT(result_, __LINE__), declaration, expression)
#define ASSERT_VALUE_2(result, declaration, expression)   \
  auto result = (expression);                             \
  ASSERT_TRUE(result.ok()) << result.status().ToString(); \
  declaration = *std::move(result)

#define ASSERT_KIND(kind, expression)                                             \
  do {                                                                            \
    const ::arrow::Status checked_status = ::sarissa::test::StatusOf(expression); \
    ASSERT_FALSE(checked_status.ok());                                            \
    ASSERT_EQ(ErrorKindName(KindOf(checked_status)), ErrorKindName(kind))         \
        << checked_status.ToString();                                             \
  } while (false)

namespace sarissa::test {

inline arrow::Status StatusOf(const arrow::Status& status) {
  return status;
}
template <typename T>
arrow::Status StatusOf(const arrow::Result<T>& result) {
  return result.status();
}

class TableWorld {
 public:
  explicit TableWorld(uint64_t seed = 1) : random_(seed) {
    env_.clock = &clock_;
    env_.random = &random_;
  }

  lance::TableContext context() { return {&store_, &env_}; }
  lance::TableContext context(object_store::ObjectStore& store) { return {&store, &env_}; }
  object_store::MemoryStore& store() { return store_; }
  const env::Env& env() const { return env_; }
  env::SimRandom& random() { return random_; }

 private:
  env::SimClock clock_;
  env::SimRandom random_;
  object_store::MemoryStore store_;
  env::Env env_;
};

// id: int64 not null, name: string.
inline std::shared_ptr<arrow::Schema> RowSchema() {
  return arrow::schema(
      {arrow::field("id", arrow::int64(), false), arrow::field("name", arrow::utf8())});
}

// Rows [first, first + count): name is "n<id>", null for each seventh id.
inline std::shared_ptr<arrow::RecordBatch> Rows(int64_t first, int64_t count) {
  arrow::Int64Builder ids;
  arrow::StringBuilder names;
  for (int64_t id = first; id < first + count; ++id) {
    EXPECT_TRUE(ids.Append(id).ok());
    EXPECT_TRUE((id % 7 == 0 ? names.AppendNull() : names.Append("n" + std::to_string(id))).ok());
  }
  return arrow::RecordBatch::Make(RowSchema(), count, {*ids.Finish(), *names.Finish()});
}

// A fragment that commits can carry without a data file behind it.
inline lance::NewFragment FakeFragment(const std::string& file, uint64_t rows) {
  lance::NewFragment out;
  out.fragment.set_physical_rows(rows);
  auto* data = out.fragment.add_files();
  data->set_path(file);
  data->add_fields(0);
  data->add_fields(1);
  data->add_column_indices(0);
  data->add_column_indices(1);
  data->set_file_major_version(2);
  data->set_file_minor_version(1);
  data->set_file_size_bytes(1000);
  return out;
}

inline arrow::Result<std::shared_ptr<lance::Table>> CreateRowTable(
    const lance::TableContext& context, const std::string& path,
    const lance::CreateOptions& options = {}) {
  ARROW_ASSIGN_OR_RAISE(const auto schema, lance::Schema::FromArrow(*RowSchema()));
  return lance::Table::Create(context, path, schema, options);
}

}  // namespace sarissa::test
