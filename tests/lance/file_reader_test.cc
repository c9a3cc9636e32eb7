#include "lance/file/file_reader.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <arrow/record_batch.h>
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/lance/lance_file_builder.h"
#include "tests/lance/memory_object.h"

namespace sarissa::lance {
namespace {

namespace pbe = pb::encodings;
using ::testing::HasSubstr;

std::shared_ptr<arrow::Array> Json(const std::shared_ptr<arrow::DataType>& type,
                                   const std::string& json) {
  return arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
}

Schema SchemaOf(std::vector<std::shared_ptr<arrow::Field>> fields) {
  return Schema::FromArrow(*arrow::schema(std::move(fields))).ValueOrDie();
}

std::shared_ptr<FileReader> OpenBytes(ByteVector bytes) {
  return FileReader::Open(MemoryObject::Of(std::move(bytes))).ValueOrDie();
}

Result<std::shared_ptr<arrow::RecordBatch>> ReadAll(const FileReader& reader) {
  ARROW_ASSIGN_OR_RAISE(const auto columns, reader.AllColumns());
  return reader.Read(columns, 0, reader.num_rows());
}

void ExpectColumn(const FileReader& reader, int index, const std::string& json) {
  const auto batch = ReadAll(reader).ValueOrDie();
  ASSERT_TRUE(batch->ValidateFull().ok());
  const auto want = Json(batch->column(index)->type(), json);
  EXPECT_TRUE(batch->column(index)->Equals(want)) << batch->column(index)->ToString();
  const auto columns = reader.AllColumns().ValueOrDie();
  const auto rows = static_cast<uint64_t>(batch->num_rows());
  for (uint64_t first = 0; first < rows; ++first) {
    for (uint64_t count = 1; first + count <= rows; ++count) {
      const auto part = reader.Read(columns, first, count).ValueOrDie();
      EXPECT_TRUE(part->column(index)->Equals(
          want->Slice(static_cast<int64_t>(first), static_cast<int64_t>(count))))
          << first << " + " << count << ": " << part->column(index)->ToString();
    }
  }
  std::vector<uint64_t> odd;
  std::vector<std::shared_ptr<arrow::Array>> parts;
  for (uint64_t row = 0; row < rows; row += 2) {
    odd.push_back(row);
    parts.push_back(want->Slice(static_cast<int64_t>(row), 1));
  }
  const auto taken = reader.Take(columns, odd).ValueOrDie();
  EXPECT_TRUE(taken->column(index)->Equals(arrow::Concatenate(parts).ValueOrDie()));
}

// One column of one page.
ByteVector OneColumn(const std::shared_ptr<arrow::DataType>& type, uint64_t rows,
                     const std::string& layout, const std::vector<ByteVector>& buffers,
                     FileVersion version = kFileV22) {
  LanceFileBuilder builder(SchemaOf({arrow::field("c", type)}), version);
  builder.BeginColumn();
  builder.AddPage(rows, layout, buffers);
  return builder.Finish(rows);
}

// A whole file of 640 bytes as the format's original writes it: id int64 = 1 2 3, s utf8 = "a" null
// "ccc".
ByteVector WorkedFile() {
  ByteVector file =
      Hex("30 00*3 | fe*60"
          " 00 00 18 00 00 00 fe fe | 01 00*7 02 00*7 03 00*7 | fe*32"
          " 40 00*3 | fe*60"
          " 03 00 06 00 14 00 00 00 | 00 00 01 00 00 00 fe fe"
          " 10 00*3 11 00*3 11 00*3 14 00*3 61 63 63 63 fe*4 | fe*24"
          " 0a 3a 0a 1a 12 02 69 64 20 ff*9 01 2a 05 69 6e 74 36 34 30 01 38 01"
          " 0a 1c 12 01 73 18 01 20 ff*9 01 2a 06 73 74 72 69 6e 67 30 01 38 02 10 03"
          " 0a 29 12 27 0a 25 0a 1f");
  const auto text = [&](const std::string& s) { file.insert(file.end(), s.begin(), s.end()); };
  const auto hex = [&](const std::string& s) {
    const ByteVector more = Hex(s);
    file.insert(file.end(), more.begin(), more.end());
  };
  text("/lance.encodings.ColumnEncoding");
  hex("12 02 0a 00  12 42 0a 02 00 40 12 02 04 20 18 03 22 36 12 34 0a 32 0a 1d");
  text("/lance.encodings21.PageLayout");
  hex("12 11 0a 0f 1a 04 0a 02 08 40 32 01 01 38 01 48 03 50 01");
  hex("0a 29 12 27 0a 25 0a 1f");
  text("/lance.encodings.ColumnEncoding");
  hex("12 02 0a 00  12 4e 0a 04 80 01 c0 01 12 02 04 28 18 03 22 40 12 3e 0a 3c 0a 1d");
  text("/lance.encodings21.PageLayout");
  hex("12 1b 0a 19 12 04 0a 02 08 10 1a 08 12 06 0a 04 0a 02 08 20 32 01 03 38 01 48 03 50 01");
  hex("3e 01 00*6 6f 00*7 | ad 01 00*6 7b 00*7 | 00 01 00*6 3e 00*7");
  hex("3e 01 00*6 28 02 00*6 48 02 00*6 01 00*3 02 00*3 02 00 02 00 4c 41 4e 43");
  return file;
}

TEST(FileReader, ReadsTheWorkedFileOfTheFormat) {
  const ByteVector file = WorkedFile();
  ASSERT_EQ(file.size(), 640u);
  const auto reader = OpenBytes(file);
  EXPECT_EQ(reader->version(), kFileV22);
  EXPECT_EQ(reader->num_rows(), 3u);
  EXPECT_EQ(reader->num_columns(), 2);
  EXPECT_EQ(reader->ColumnBytes(0).ValueOrDie(), 36u);
  EXPECT_EQ(reader->ColumnBytes(1).ValueOrDie(), 44u);
  ExpectColumn(*reader, 0, "[1, 2, 3]");
  ExpectColumn(*reader, 1, R"(["a", null, "ccc"])");
}

TEST(FileReader, OneReadOfTheTailOpensASmallFile) {
  const auto object = MemoryObject::Of(WorkedFile());
  ASSERT_TRUE(FileReader::Open(object).ok());
  EXPECT_EQ(object->bytes_read(), 640u);
}

TEST(FileReader, ReadsAListWithNullAndEmptyLists) {
  const auto file = OneColumn(
      arrow::list(arrow::int32()), 4,
      HexString(
          "0a 1e 0a 04 0a 02 08 10 12 04 0a 02 08 10 1a 04 0a 02 08 20 32 02 03 06 38 01 40 01"
          " 48 05 50 01"),
      {Hex("80 00 00 00"),
       Hex("07 00 0e 00 0e 00 14 00 00 00 fe*6"
           " 01 00 00 00 00 00 01 00 01 00 01 00 00 00 fe fe"
           " 00 00 00 00 00 00 03 00 02 00 00 00 01 00 fe fe"
           " 01 00 00 00 02 00 00 00 03 00 00 00 04 00 00 00 00 00 00 00 fe*4"),
       Hex("04 00*7 00*8")});
  ExpectColumn(*OpenBytes(file), 0, "[[1, 2, 3], [], null, [4, null]]");
}

std::string FullZipBinary(uint32_t rows) {
  pbe::PageLayout layout;
  auto* zip = layout.mutable_full_zip();
  zip->set_bits_def(1);
  zip->set_bits_per_offset(64);
  zip->set_num_items(rows);
  zip->set_num_visible_items(rows);
  zip->mutable_value_compression()
      ->mutable_variable()
      ->mutable_offsets()
      ->mutable_flat()
      ->set_bits_per_value(64);
  zip->add_layers(pbe::NULLABLE_ITEM);
  return layout.SerializeAsString();
}

TEST(FileReader, ReadsFullZipBinaries) {
  const auto file =
      OneColumn(arrow::large_binary(), 3, FullZipBinary(3),
                {Hex("00 2c 01 00*6 41*300 01 00 00*8"), Hex("00 00 35 01 36 01 3f 01")});
  ExpectColumn(*OpenBytes(file), 0, "[\"" + std::string(300, 'A') + "\", null, \"\"]");
}

TEST(FileReader, ReadsFixedSizeListsWithNulls) {
  pbe::PageLayout layout;
  auto* mini = layout.mutable_mini_block();
  mini->mutable_def_compression()->mutable_flat()->set_bits_per_value(16);
  auto* list = mini->mutable_value_compression()->mutable_fixed_size_list();
  list->set_items_per_value(2);
  list->set_has_validity(true);
  list->mutable_values()->mutable_flat()->set_bits_per_value(32);
  mini->set_num_buffers(2);
  mini->set_num_items(2);
  mini->set_has_large_chunk(true);
  mini->add_layers(pbe::NULLABLE_ITEM);
  const auto file = OneColumn(
      arrow::fixed_size_list(arrow::float32(), 2), 2, layout.SerializeAsString(),
      {Hex("50 00 00 00"), Hex("02 00 04 00 01 00 00 00 10 00 00 00 fe*4"
                               " 00 00 01 00 fe*4 03 fe*7 00 00 80 3f 00 00 00 40 00*8")});
  ExpectColumn(*OpenBytes(file), 0, "[[1, 2], null]");
}

TEST(FileReader, ReadsAConstantValueBuffer) {
  pbe::PageLayout layout;
  layout.mutable_constant()->add_layers(pbe::ALL_VALID_ITEM);
  const auto file =
      OneColumn(arrow::utf8(), 2, layout.SerializeAsString(),
                {Hex("02 00*3 08 00*3 0b 00*3 00*4 0b 00*3 73 61 6d 65 20 73 74 72 69 6e 67")});
  ExpectColumn(*OpenBytes(file), 0, R"(["same string", "same string"])");
}

// One column of large_binary values, uncompressed.
ByteVector LargeValues(const std::vector<uint64_t>& sizes) {
  ByteVector data;
  ByteVector index(8);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t at = data.size();
    data.resize(at + 9 + sizes[i], static_cast<uint8_t>('a' + i));
    data[at] = 0;
    Store<uint64_t>(data.data() + at + 1, sizes[i]);
    index.resize(index.size() + 8);
    Store<uint64_t>(index.data() + index.size() - 8, data.size());
  }
  return OneColumn(arrow::large_binary(), sizes.size(),
                   FullZipBinary(static_cast<uint32_t>(sizes.size())), {data, index}, kFileV21);
}

TEST(FileReader, ALargeValueIsASliceOfWhatTheStoreGave) {
  const auto object = MemoryObject::Of(LargeValues({5, 3 << 20, 7, 2 << 20}));
  const auto reader = FileReader::Open(object).ValueOrDie();
  const auto columns = reader->AllColumns().ValueOrDie();
  const std::vector<uint64_t> rows{1};
  const uint64_t before = object->bytes_read();
  for (const auto& batch :
       {reader->Take(columns, rows).ValueOrDie(), reader->Read(columns, 1, 1).ValueOrDie()}) {
    ASSERT_TRUE(batch->ValidateFull().ok());
    const auto& array = static_cast<const arrow::LargeBinaryArray&>(*batch->column(0));
    ASSERT_EQ(array.value_length(0), 3 << 20);
    EXPECT_EQ(array.GetView(0), std::string(3 << 20, 'b'));
    const uint8_t* value = array.value_data()->data();
    EXPECT_TRUE(value > object->bytes().data() &&
                value < object->bytes().data() + object->bytes().size());
  }
  EXPECT_LT(object->bytes_read() - before, 2 * ((3u << 20) + 1000));
}

TEST(FileReader, SeveralLargeValuesAreCopiedIntoOneArray) {
  const auto reader = OpenBytes(LargeValues({5, 3 << 20, 7, 2 << 20}));
  const auto batch = ReadAll(*reader).ValueOrDie();
  ASSERT_TRUE(batch->ValidateFull().ok());
  const auto& array = static_cast<const arrow::LargeBinaryArray&>(*batch->column(0));
  EXPECT_EQ(array.GetView(0), "aaaaa");
  EXPECT_EQ(array.GetView(1), std::string(3 << 20, 'b'));
  EXPECT_EQ(array.GetView(2), "ccccccc");
  EXPECT_EQ(array.GetView(3), std::string(2 << 20, 'd'));
}

pbe::PageLayout FlatInts(uint64_t items) {
  pbe::PageLayout layout;
  auto* mini = layout.mutable_mini_block();
  mini->mutable_value_compression()->mutable_flat()->set_bits_per_value(64);
  mini->set_num_buffers(1);
  mini->set_num_items(items);
  mini->set_has_large_chunk(true);
  mini->add_layers(pbe::ALL_VALID_ITEM);
  return layout;
}

TEST(FileReader, ReadsOnlyTheChunksThatHoldWantedRows) {
  constexpr uint64_t kChunks = 100;
  ByteVector words;
  ByteVector chunks;
  for (uint64_t i = 0; i < kChunks; ++i) {
    words.resize(words.size() + 4);
    const uint32_t log = i + 1 == kChunks ? 0 : 10;
    Store<uint32_t>(words.data() + words.size() - 4, (8200 / 8 - 1) << 4 | log);
    const size_t at = chunks.size();
    chunks.resize(at + 8200);
    Store<uint32_t>(chunks.data() + at + 2, 8192);
    for (uint64_t k = 0; k < 1024; ++k) {
      Store<uint64_t>(chunks.data() + at + 8 + 8 * k, i * 1024 + k);
    }
  }
  const uint64_t rows = kChunks * 1024;
  const auto object = MemoryObject::Of(
      OneColumn(arrow::int64(), rows, FlatInts(rows).SerializeAsString(), {words, chunks}));
  const auto reader = FileReader::Open(object).ValueOrDie();
  const auto columns = reader->AllColumns().ValueOrDie();
  const uint64_t before = object->bytes_read();
  const std::vector<uint64_t> wanted{3, 1023, 1024, 90000};
  const auto batch = reader->Take(columns, wanted).ValueOrDie();
  EXPECT_TRUE(batch->column(0)->Equals(Json(arrow::int64(), "[3, 1023, 1024, 90000]")));
  EXPECT_LT(object->bytes_read() - before, 3 * 8200 + words.size() + 1);
  EXPECT_TRUE(Is(reader->Read(columns, rows - 1, 2).status(), ErrorKind::kInvalid));
  EXPECT_TRUE(Is(reader->Read(columns, UINT64_MAX, 2).status(), ErrorKind::kInvalid));
  EXPECT_EQ(reader->Read(columns, rows, 0).ValueOrDie()->num_rows(), 0);
  const std::vector<uint64_t> twice{3, 3};
  EXPECT_TRUE(Is(reader->Take(columns, twice).status(), ErrorKind::kInvalid));
}

TEST(FileReader, NamesAnUnknownNodeByItsPath) {
  pbe::PageLayout layout = FlatInts(3);
  auto* general = layout.mutable_mini_block()->mutable_value_compression()->mutable_general();
  general->mutable_compression()->set_scheme(pbe::BufferCompression::LZ4);
  // Field 15 of the encoding message is delta, which the reader does not know.
  ASSERT_TRUE(general->mutable_values()->ParseFromString(HexString("7a 00")));
  const auto reader = OpenBytes(
      OneColumn(arrow::int64(), 3, layout.SerializeAsString(), {Hex("30 00 00 00"), Hex("00*40")}));
  const Status status = ReadAll(*reader).status();
  EXPECT_TRUE(Is(status, ErrorKind::kUnsupported));
  EXPECT_THAT(status.message(),
              HasSubstr("test.lance: column 0 page 0: mini_block/value_compression/general/delta"));
}

TEST(FileReader, NamesTheDamagedPage) {
  const auto reader = OpenBytes(OneColumn(arrow::int64(), 3, FlatInts(3).SerializeAsString(),
                                          {Hex("30 00 00 00"), Hex("00 00 ff 00*45")}));
  const Status status = ReadAll(*reader).status();
  EXPECT_TRUE(Is(status, ErrorKind::kCorrupt));
  EXPECT_THAT(status.message(), HasSubstr("column 0 page 0: chunk 0: "));
}

TEST(FileReader, RefusesOtherVersionsByName) {
  for (const auto& [bytes, name] :
       {std::pair{"00 00 03 00", "2.0"}, std::pair{"02 00 00 00", "2.0"},
        std::pair{"02 00 03 00", "2.3"}, std::pair{"03 00 00 00", "3.0"}}) {
    ByteVector file = WorkedFile();
    const ByteVector version = Hex(bytes);
    std::copy(version.begin(), version.end(), file.end() - 8);
    const Status status = FileReader::Open(MemoryObject::Of(file)).status();
    EXPECT_TRUE(Is(status, ErrorKind::kUnsupported));
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

ByteVector LoadFile(const std::filesystem::path& path) {
  const auto file = arrow::io::ReadableFile::Open(path.string()).ValueOrDie();
  const auto bytes = file->Read(file->GetSize().ValueOrDie()).ValueOrDie();
  return ByteVector(bytes->data(), bytes->data() + bytes->size());
}

std::vector<ByteVector> ValidFiles() {
  const auto folder = std::filesystem::path(SARISSA_TESTS_DIR) / "lance" / "data";
  std::vector<ByteVector> files{WorkedFile(), LargeValues({5, 300, 7})};
  for (const char* name :
       {"mixed_2.1.lance", "mixed_2.2.lance", "long_2.1.lance", "long_2.2.lance"}) {
    files.push_back(LoadFile(folder / name));
  }
  return files;
}

// Reads what can be read; columns one by one, so that one that fails does not hide the others.
void Exercise(ByteVector bytes, std::mt19937_64& rng) {
  const auto opened = FileReader::Open(MemoryObject::Of(std::move(bytes)));
  if (!opened.ok()) return;
  const FileReader& reader = **opened;
  const auto columns = reader.AllColumns();
  if (!columns.ok()) return;
  const uint64_t rows = std::min<uint64_t>(reader.num_rows(), 2000);
  for (const ColumnRequest& column : *columns) {
    const std::span<const ColumnRequest> one(&column, 1);
    const auto whole = reader.Read(one, 0, rows);
    if (whole.ok()) {
      EXPECT_TRUE((*whole)->Validate().ok()) << (*whole)->Validate().ToString();
    }
    if (rows == 0) continue;
    std::vector<uint64_t> some{rng() % rows};
    if (some[0] + 3 < rows) some.push_back(some[0] + 3);
    const auto taken = reader.Take(one, some);
    if (taken.ok()) {
      EXPECT_TRUE((*taken)->Validate().ok());
    }
  }
}

TEST(FileReader, ReadsTheValidFiles) {
  for (const ByteVector& file : ValidFiles()) {
    const auto batch = ReadAll(*OpenBytes(file));
    ASSERT_TRUE(batch.ok()) << batch.status().ToString();
    EXPECT_TRUE((*batch)->ValidateFull().ok());
  }
}

TEST(FileReader, DamagedFilesGiveErrorsOrValuesButNeverACrash) {
  const char* given = std::getenv("SARISSA_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 42;
  const char* rounds = std::getenv("SARISSA_MUTATIONS");
  const uint64_t mutations = rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : 3000;
  SCOPED_TRACE(fmt::format("SARISSA_SEED={}", seed));
  std::printf("SARISSA_SEED=%llu\n", static_cast<unsigned long long>(seed));
  const std::vector<ByteVector> files = ValidFiles();
  const google::protobuf::LogSilencer quiet;
  for (uint64_t round = 0; round < mutations; ++round) {
    std::mt19937_64 rng(seed * 1000003 + round);
    ByteVector bytes = files[round % files.size()];
    // Half of the damage goes to the tail, where the metadata is.
    const uint64_t window = rng() % 2 == 0 ? bytes.size() : std::min<uint64_t>(bytes.size(), 6000);
    const uint64_t base = bytes.size() - window;
    for (uint64_t i = 0, n = 1 + rng() % 4; i < n; ++i) {
      const uint64_t at = base + rng() % window;
      switch (rng() % 4) {
        case 0:
          bytes[at] = static_cast<uint8_t>(rng());
          break;
        case 1:
          bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1u << (rng() % 8)));
          break;
        case 2:
          bytes[at] = rng() % 2 == 0 ? 0xff : 0;
          break;
        default:
          for (uint64_t k = at; k < std::min<uint64_t>(bytes.size(), at + 8); ++k) {
            bytes[k] = static_cast<uint8_t>(rng());
          }
      }
    }
    if (rng() % 10 == 0) bytes.resize(rng() % bytes.size());
    Exercise(std::move(bytes), rng);
  }
}

}  // namespace
}  // namespace sarissa::lance
