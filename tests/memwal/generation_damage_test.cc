// Every file of a flushed generation, damaged in every way that a disk knows: a full read gives
// exactly the rows that were written, or an error that names the place. Never other rows.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/catalog.h"
#include "engine/generation_reader.h"
#include "env/posix/posix_env.h"
#include "env/sim/sim_random.h"
#include "memwal/position_sidecar.h"
#include "object_store/block_checksums.h"
#include "object_store/memory_store.h"
#include "tests/counts.h"
#include "tests/engine/waiting_catalog.h"
#include "tests/memwal/rows.h"
#include "tests/object_store/counting_metrics.h"

namespace sarissa::engine {
namespace {

using testing::CreateNow;
using testing::FindNow;

using object_store::ChecksumTable;
using object_store::kChecksumSidecarName;
using object_store::MemoryStore;
using object_store::PutMode;
using object_store::testing::CountingMetrics;
using object_store::testing::kChecksumFailures;
using object_store::testing::kIgnoredSidecars;
using testing::CreateNow;
using testing::FindNow;

constexpr env::Duration kWait = std::chrono::seconds(60);
constexpr char kStore[] = "exp";
constexpr char kOther[] = "other";

struct Row {
  std::string id;
  int64_t value = 0;
  std::string text;
  std::string payload;
};

std::shared_ptr<arrow::Schema> UserSchema() {
  auto fields = memwal::testing::KeyedSchema()->fields();
  fields.push_back(arrow::field("text", arrow::utf8(), true));
  fields.push_back(arrow::field("payload", arrow::large_binary(), true));
  return arrow::schema(fields);
}

lance::Schema TableSchema() {
  return lance::Schema::FromArrow(*UserSchema()).ValueOrDie();
}

std::shared_ptr<arrow::RecordBatch> BatchOf(const std::vector<Row>& rows) {
  arrow::StringBuilder ids;
  arrow::Int64Builder values;
  arrow::StringBuilder texts;
  arrow::LargeBinaryBuilder payloads;
  for (const Row& row : rows) {
    SARISSA_CHECK(ids.Append(row.id).ok() && values.Append(row.value).ok() &&
                      texts.Append(row.text).ok() && payloads.Append(row.payload).ok(),
                  "out of memory");
  }
  return arrow::RecordBatch::Make(
      TableSchema().arrow_schema(), static_cast<int64_t>(rows.size()),
      {*ids.Finish(), *values.Finish(), *texts.Finish(), *payloads.Finish()});
}

std::string Text(const Row& row) {
  return fmt::format("{}|{}|{}|{}", row.id, row.value, row.text, row.payload);
}

void AppendRows(const arrow::RecordBatch& batch, std::vector<std::string>& out) {
  const auto& ids = static_cast<const arrow::StringArray&>(*batch.GetColumnByName("id"));
  const auto& values = static_cast<const arrow::Int64Array&>(*batch.GetColumnByName("value"));
  const auto& texts = static_cast<const arrow::StringArray&>(*batch.GetColumnByName("text"));
  const auto& payloads =
      static_cast<const arrow::LargeBinaryArray&>(*batch.GetColumnByName("payload"));
  for (int64_t row = 0; row < batch.num_rows(); ++row) {
    out.push_back(Text(
        {ids.GetString(row), values.Value(row), texts.GetString(row), payloads.GetString(row)}));
  }
}

// What a read of everything gives: the rows in order, then each row again by its key.
Result<std::vector<std::string>> ReadGeneration(object_store::ObjectStore& store,
                                                const env::Env& env, const std::string& folder) {
  ARROW_ASSIGN_OR_RAISE(const auto reader, GenerationReader::Open({&store, &env}, folder, "id"));
  std::vector<std::string> rows;
  ARROW_ASSIGN_OR_RAISE(const auto stream, reader->table().Scan({}));
  for (;;) {
    ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
    if (batch == nullptr) break;
    AppendRows(*batch, rows);
  }
  ARROW_ASSIGN_OR_RAISE(const auto keys, reader->Keys());
  for (const auto& [key, address] : keys->rows) {
    const lance::RowAddress addresses[] = {address};
    ARROW_ASSIGN_OR_RAISE(const auto row, reader->table().Take(addresses, std::nullopt));
    AppendRows(*row, rows);
  }
  return rows;
}

std::vector<std::string> Twice(std::vector<std::string> rows) {
  const size_t count = rows.size();
  rows.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) rows.push_back(rows[i]);
  return rows;
}

class GenerationDamage : public ::testing::Test {
 protected:
  // One generation of `rows`, in which every third row is replaced by a later one.
  void MakeStore(int rows, size_t payload_bytes) {
    env::SimRandom random(11);
    std::vector<Row> first;
    std::vector<Row> second;
    for (int i = 0; i < rows; ++i) {
      std::string payload(random.Below(payload_bytes) + 1, '\0');
      for (char& byte : payload) byte = static_cast<char>(random.Next());
      first.push_back({fmt::format("id-{}", i), i, fmt::format("text {}", i), payload});
      if (i % 3 == 0) {
        second.push_back(first.back());
        second.back().value = 1000 + i;
      } else {
        expected_.push_back(Text(first.back()));
      }
    }
    for (const Row& row : second) expected_.push_back(Text(row));

    const auto catalog = OpenCatalog(store_);
    const auto table = CreateNow(*catalog, kStore).ValueOrDie();
    ASSERT_TRUE(table->Append({BatchOf(first)}, {}).Wait(kWait).ok());
    ASSERT_TRUE(table->Append({BatchOf(second)}, {}).Wait(kWait).ok());
    ASSERT_TRUE(table->Flush().Wait(kWait).ok());
    const auto other = CreateNow(*catalog, kOther).ValueOrDie();
    ASSERT_TRUE(other->Append({BatchOf({{"x", 1, "y", "z"}})}, {}).Wait(kWait).ok());
    ASSERT_TRUE(other->Flush().Wait(kWait).ok());
    ASSERT_TRUE(catalog->Close(kWait).ok());
    for (const auto& object : Objects(store_)) {
      const size_t at = object.name.find(kChecksumSidecarName);
      if (at != std::string::npos && object.name.starts_with(kStore))
        folder_ = object.name.substr(0, at - 1);
    }
    ASSERT_FALSE(folder_.empty());
    for (const auto& object : Objects(store_)) {
      if (object.name.starts_with(folder_ + "/"))
        files_[object.name.substr(folder_.size() + 1)] = Get(object.name);
    }
    const auto rows_read = ReadGeneration(store_, env_, folder_);
    ASSERT_TRUE(rows_read.ok()) << rows_read.status();
    ASSERT_EQ(*rows_read, Twice(expected_));
  }

  std::shared_ptr<Catalog> OpenCatalog(object_store::ObjectStore& store) {
    CatalogOptions options;
    options.schema = TableSchema();
    options.uri_prefix = "./data/";
    options.flush_interval = {};
    return Catalog::Open(store, env_, options).ValueOrDie();
  }

  static std::vector<object_store::ObjectInfo> Objects(object_store::ObjectStore& store) {
    return store.List("", {.start_after = "", .limit = 0, .recursive = true}).ValueOrDie().objects;
  }
  std::string Get(const std::string& name) { return store_.Get(name).ValueOrDie()->ToString(); }
  void Replace(const std::string& file, const std::string& bytes) {
    ASSERT_TRUE(store_
                    .Put(folder_ + "/" + file,
                         {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                         PutMode::kOverwrite)
                    .ok());
  }

  // True: the damage was found. False: the rows were right.
  bool FindsDamage(const std::string& file, const std::string& how) {
    const auto rows = ReadGeneration(store_, env_, folder_);
    if (rows.ok()) {
      EXPECT_EQ(*rows, Twice(expected_)) << file << ": " << how;
      return false;
    }
    EXPECT_TRUE(Is(rows.status(), ErrorKind::kCorrupt)) << file << ": " << how << rows.status();
    EXPECT_NE(rows.status().message().find(file), std::string::npos)
        << file << ": " << how << ": " << rows.status();
    return true;
  }

  // Files without which the rows cannot be read.
  static bool Needed(const std::string& file) {
    return file.starts_with("data/") || file.starts_with("_versions/") ||
           file.starts_with("_deletions/");
  }

  void FlipBits(const std::string& file, size_t every_byte, bool all_bits) {
    const std::string& whole = files_.at(file);
    size_t tried = 0;
    size_t found = 0;
    for (size_t byte = 0; byte < whole.size(); byte += every_byte) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if (!all_bits && bit != byte % 8) continue;
        std::string damaged = whole;
        damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
        Replace(file, damaged);
        ++tried;
        found += FindsDamage(file, fmt::format("bit {} of byte {}", bit, byte)) ? 1 : 0;
        if (HasFailure()) return;
      }
    }
    Replace(file, whole);
    EXPECT_FALSE(FindsDamage(file, "whole again"));
    EXPECT_EQ(found, Needed(file) ? tried : 0) << file;
  }

  CountingMetrics metrics_;
  env::PosixEnv posix_{{}, metrics_};
  const env::Env& env_ = posix_.env();
  MemoryStore store_;
  std::vector<std::string> expected_;
  std::string folder_;
  std::map<std::string, std::string> files_;  // of the generation
};

TEST_F(GenerationDamage, TheSidecarNamesEveryOtherFileOfTheFolder) {
  MakeStore(10, 100);
  const std::string& sidecar = files_.at(kChecksumSidecarName);
  const ChecksumTable table =
      object_store::DecodeChecksumTable(
          {reinterpret_cast<const uint8_t*>(sidecar.data()), sidecar.size()})
          .ValueOrDie();
  std::vector<std::string> names;
  for (const auto& [name, file] : table) {
    names.push_back(name);
    EXPECT_EQ(file.size, files_.at(name).size()) << name;
  }
  std::vector<std::string> there;
  for (const auto& [name, bytes] : files_) {
    if (name != kChecksumSidecarName) there.push_back(name);
  }
  EXPECT_EQ(names, there);
  for (const std::string prefix :
       {"data/", "_versions/", "_deletions/", "_pk_index/page_data.lance",
        "_pk_index/page_lookup.lance", "bloom_filter.bin", memwal::kPositionSidecarName}) {
    EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](const auto& name) {
      return name.starts_with(prefix);
    })) << prefix;
  }
}

TEST_F(GenerationDamage, AnyFlippedBitOfASmallGeneration) {
  MakeStore(6, 40);
  for (const auto& [file, bytes] : files_) {
    // Nobody reads the other files yet: a bit of every few bytes of them is enough.
    const bool read = Needed(file) || file == kChecksumSidecarName;
    const bool every_bit = read && !tests::kSanitized;
    FlipBits(file, every_bit ? 1 : 9, every_bit);
  }
  EXPECT_GT(metrics_.total(kChecksumFailures), 0);
  EXPECT_GT(metrics_.total(kIgnoredSidecars), 0);
}

TEST_F(GenerationDamage, FlippedBitsAllOverALargeGeneration) {
  MakeStore(400, 3000);
  const size_t positions = tests::kSanitized ? 10 : 100;
  for (const auto& [file, bytes] : files_) {
    // Odd, so that all bits of a byte and all places of a page have their turn.
    FlipBits(file, std::max<size_t>(1, bytes.size() / positions) | 1, false);
  }
}

TEST_F(GenerationDamage, FilesThatAreCutEmptyLongerOrGone) {
  MakeStore(10, 100);
  for (const auto& [file, whole] : files_) {
    for (const size_t length :
         {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 8, whole.size() - 1}) {
      Replace(file, whole.substr(0, length));
      EXPECT_EQ(FindsDamage(file, fmt::format("cut to {}", length)), Needed(file)) << file;
    }
    Replace(file, whole + '\0');
    EXPECT_EQ(FindsDamage(file, "a byte more"), Needed(file)) << file;
    ASSERT_TRUE(store_.Delete(folder_ + "/" + file).ok());
    const auto rows = ReadGeneration(store_, env_, folder_);
    if (rows.ok()) {
      EXPECT_FALSE(Needed(file)) << file;
      EXPECT_EQ(*rows, Twice(expected_)) << file;
    } else {
      EXPECT_TRUE(Needed(file)) << file;
      EXPECT_TRUE(Is(rows.status(), ErrorKind::kNotFound)) << rows.status();
      // Without its manifest a table has no file that could be named.
      const std::string place = file.starts_with("_versions/") ? folder_ : file;
      EXPECT_NE(rows.status().message().find(place), std::string::npos) << rows.status();
    }
    Replace(file, whole);
  }
}

TEST_F(GenerationDamage, AFileOfAnotherGenerationUnderTheSameNameIsSeen) {
  MakeStore(10, 100);
  for (const auto& [file, whole] : files_) {
    if (!Needed(file)) continue;
    std::string other = whole;
    std::reverse(other.begin(), other.end());
    Replace(file, other);
    EXPECT_TRUE(FindsDamage(file, "as long, other bytes"));
    Replace(file, whole);
  }
}

// Through the whole engine: the damaged store answers with the error or its rows, its neighbour as
// if nothing were, and the damaged store still takes rows.
TEST_F(GenerationDamage, TheRestOfTheServerGoesOn) {
  MakeStore(10, 100);
  for (const auto& [file, whole] : files_) {
    MemoryStore copy;
    for (const auto& object : Objects(store_)) {
      std::string bytes = Get(object.name);
      if (object.name == folder_ + "/" + file) bytes[bytes.size() / 2] ^= 0x10;
      ASSERT_TRUE(copy.Put(object.name,
                           {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                           PutMode::kIfAbsent)
                      .ok());
    }
    const auto catalog = OpenCatalog(copy);
    const auto read = [&](const char* name) -> Result<std::vector<std::string>> {
      ARROW_ASSIGN_OR_RAISE(const auto table, FindNow(*catalog, name));
      ARROW_ASSIGN_OR_RAISE(const auto stream, table->Scan({}));
      std::vector<std::string> rows;
      for (;;) {
        ARROW_ASSIGN_OR_RAISE(const auto batch, stream->Next());
        if (batch == nullptr) return rows;
        AppendRows(*batch, rows);
      }
    };
    const auto rows = read(kStore);
    if (Needed(file)) {
      EXPECT_TRUE(Is(rows.status(), ErrorKind::kCorrupt)) << file << rows.status();
      EXPECT_NE(rows.status().message().find(file), std::string::npos) << rows.status();
      const auto table = FindNow(*catalog, kStore).ValueOrDie();
      EXPECT_TRUE(Is(table->Get("id-1", std::nullopt).status(), ErrorKind::kCorrupt)) << file;
      EXPECT_TRUE(table->Append({BatchOf({{"new", 1, "", ""}})}, {}).Wait(kWait).ok());
    } else {
      EXPECT_EQ(rows.ValueOrDie(), expected_) << file;
    }
    EXPECT_EQ(read(kOther).ValueOrDie(), std::vector<std::string>{"x|1|y|z"});
    EXPECT_TRUE(catalog->Close(kWait).ok());
  }
}

}  // namespace
}  // namespace sarissa::engine
