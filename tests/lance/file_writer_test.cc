#include "lance/file/file_writer.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/array/array_nested.h>
#include <arrow/array/array_primitive.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/concatenate.h>
#include <arrow/json/from_string.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "env/mapped_range.h"
#include "object_store/memory_store.h"
#include "proto/lance_encodings.pb.h"
#include "proto/lance_file.pb.h"

namespace sarissa::lance {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<arrow::Array> FromJson(const std::shared_ptr<arrow::DataType>& type,
                                       std::string_view json) {
  return arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
}

std::shared_ptr<arrow::RecordBatch> OneColumn(const std::shared_ptr<arrow::Array>& array,
                                              bool nullable = true) {
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("c", array->type(), nullable)}),
                                  array->length(), {array});
}

// A written file, taken apart.
struct Written {
  std::string bytes;
  FileSummary summary;
  pb::file::FileDescriptor descriptor;
  std::vector<pb::file::ColumnMetadata> columns;

  template <typename Int>
  Int At(uint64_t offset) const {
    Int value;
    std::memcpy(&value, bytes.data() + offset, sizeof(Int));
    return value;
  }
  std::string Buffer(int column, int page, int buffer) const {
    const auto& at = columns[static_cast<size_t>(column)].pages(page);
    return bytes.substr(at.buffer_offsets(buffer), at.buffer_sizes(buffer));
  }
  std::string LayoutBytes(int column, int page) const {
    pb::file::Any any;
    EXPECT_TRUE(any.ParseFromString(
        columns[static_cast<size_t>(column)].pages(page).encoding().direct().encoding()));
    EXPECT_EQ(any.type_url(), "/lance.encodings21.PageLayout");
    return any.value();
  }
  pb::encodings::PageLayout Layout(int column, int page) const {
    pb::encodings::PageLayout layout;
    EXPECT_TRUE(layout.ParseFromString(LayoutBytes(column, page)));
    return layout;
  }
};

Status WriteAll(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                const FileWriterOptions& options, object_store::MemoryStore& store,
                FileSummary* summary) {
  ARROW_ASSIGN_OR_RAISE(auto sink, store.Create("f.lance"));
  ARROW_ASSIGN_OR_RAISE(Schema schema, Schema::FromArrow(*batches[0]->schema()));
  ARROW_ASSIGN_OR_RAISE(auto writer, FileWriter::Make(std::move(sink), schema, options));
  for (const auto& batch : batches) ARROW_RETURN_NOT_OK(writer->Write(*batch));
  return writer->Finish(object_store::PutMode::kIfAbsent).Value(summary);
}

Written Write(const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
              const FileWriterOptions& options) {
  object_store::MemoryStore store;
  Written out;
  const Status status = WriteAll(batches, options, store, &out.summary);
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (!status.ok()) return out;
  out.bytes = store.Get("f.lance").ValueOrDie()->ToString();
  const uint64_t footer = out.bytes.size() - 40;
  EXPECT_EQ(out.bytes.substr(footer + 36), "LANC");
  EXPECT_EQ(out.At<uint16_t>(footer + 32), options.version.major);
  EXPECT_EQ(out.At<uint16_t>(footer + 34), options.version.minor);
  const auto column_table = out.At<uint64_t>(footer + 8);
  const auto global_table = out.At<uint64_t>(footer + 16);
  EXPECT_EQ(out.At<uint32_t>(footer + 24), 1U);
  const auto descriptor = out.At<uint64_t>(global_table);
  EXPECT_EQ(descriptor % 64, 0U);
  EXPECT_TRUE(out.descriptor.ParseFromString(
      out.bytes.substr(descriptor, out.At<uint64_t>(global_table + 8))));
  out.columns.resize(out.At<uint32_t>(footer + 28));
  for (size_t i = 0; i < out.columns.size(); ++i) {
    const auto position = out.At<uint64_t>(column_table + 16 * i);
    const auto size = out.At<uint64_t>(column_table + 16 * i + 8);
    EXPECT_TRUE(out.columns[i].ParseFromString(out.bytes.substr(position, size)));
    for (const auto& page : out.columns[i].pages()) {
      for (uint64_t offset : page.buffer_offsets()) EXPECT_EQ(offset % 64, 0U);
    }
  }
  return out;
}

std::string Hex(std::string_view bytes) {
  std::string out;
  for (char byte : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return out;
}

// Hex without the spaces.
std::string Joined(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c != ' ') out += c;
  }
  return out;
}

FileWriterOptions WithVersion(FileVersion version) {
  FileWriterOptions options;
  options.version = version;
  return options;
}

TEST(FileWriter, WholeFileMatchesTheFormatByteForByte) {
  auto schema =
      arrow::schema({arrow::field("id", arrow::int64(), false), arrow::field("s", arrow::utf8())});
  auto batch = arrow::RecordBatch::Make(
      schema, 3,
      {FromJson(arrow::int64(), "[1, 2, 3]"), FromJson(arrow::utf8(), R"(["a", null, "ccc"])")});
  const Written file = Write({batch}, WithVersion(kFileV22));
  EXPECT_EQ(file.summary.rows, 3U);
  EXPECT_EQ(file.summary.columns, 2);
  EXPECT_EQ(file.summary.size_bytes, file.bytes.size());
  EXPECT_EQ(Hex(file.Buffer(0, 0, 0)), "30000000");
  EXPECT_EQ(Hex(file.Buffer(0, 0, 1)),
            Joined("0000 18000000 fefe 0100000000000000 0200000000000000 0300000000000000"));
  EXPECT_EQ(Hex(file.LayoutBytes(0, 0)), Joined("0a0f 1a04 0a020840 320101 3801 4803 5001"));
  EXPECT_EQ(Hex(file.Buffer(1, 0, 0)), "40000000");
  EXPECT_EQ(Hex(file.Buffer(1, 0, 1)),
            Joined("0300 0600 14000000 0000 0100 0000 fefe"
                   "10000000 11000000 11000000 14000000 61636363 fefefefe"));
  EXPECT_EQ(Hex(file.LayoutBytes(1, 0)),
            Joined("0a19 1204 0a020810 1a08 1206 0a04 0a020820 320103 3801 4803 5001"));
  // Buffers at 0, 64, 128, 192; the descriptor at 256.
  EXPECT_EQ(Hex(file.bytes.substr(256, 60)),
            Joined("0a38 0a18 1202 6964 20ffffffffffffffffff01 2a05 696e743634 3801"
                   "0a1c 1201 73 1801 20ffffffffffffffffff01 2a06 737472696e67 3001 3802 1003"));
  const std::string column0 = file.columns[0].SerializeAsString();
  EXPECT_EQ(Hex(column0), Joined("0a29 1227 0a25 0a1f") + Hex("/lance.encodings.ColumnEncoding") +
                              Joined("1202 0a00 1242 0a020040 12020420 1803 2236 1234 0a32 0a1d") +
                              Hex("/lance.encodings21.PageLayout") +
                              Joined("1211 0a0f 1a04 0a020840 320101 3801 4803 5001"));
  EXPECT_EQ(file.bytes.substr(316, column0.size()), column0);
}

TEST(FileWriter, ListLevelsCountFromTheInsideAndTellNullFromEmpty) {
  auto lists = FromJson(arrow::list(arrow::int32()), "[[1, 2, 3], [], null, [4, null]]");
  const Written file = Write({OneColumn(lists)}, WithVersion(kFileV22));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 0)), "80000000");
  EXPECT_EQ(Hex(file.Buffer(0, 0, 1)),
            Joined("0700 0e00 0e00 14000000 fefefefefefe"
                   "0100 0000 0000 0100 0100 0100 0000 fefe"
                   "0000 0000 0000 0300 0200 0000 0100 fefe"
                   "01000000 02000000 03000000 04000000 00000000 fefefefe"));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 2)), Joined("0400000000000000 0000000000000000"));
  EXPECT_EQ(Hex(file.LayoutBytes(0, 0)),
            Joined("0a1e 0a04 0a020810 1204 0a020810 1a04 0a020820 32020306 3801 4001 4805 5001"));
}

TEST(FileWriter, LongValuesAreZippedWithTheirLengths) {
  const std::string json = "[\"" + std::string(300, 'A') + R"(", null, ""])";
  const Written file =
      Write({OneColumn(FromJson(arrow::large_binary(), json))}, WithVersion(kFileV21));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 0)), Joined("00 2c01000000000000") + Hex(std::string(300, 'A')) +
                                           Joined("01 00 0000000000000000"));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 1)), Joined("0000 3501 3601 3f01"));
  const auto layout = file.Layout(0, 0).full_zip();
  EXPECT_EQ(layout.bits_def(), 1U);
  EXPECT_EQ(layout.bits_per_offset(), 64U);
  EXPECT_EQ(layout.num_items(), 3U);
  EXPECT_EQ(layout.num_visible_items(), 3U);
}

TEST(FileWriter, FixedSizeListsWithNullsCarryItemValidity) {
  auto vectors = FromJson(arrow::fixed_size_list(arrow::float32(), 2), "[[1, 2], null]");
  const Written file = Write({OneColumn(vectors)}, WithVersion(kFileV22));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 0)), "50000000");
  const std::string chunk = file.Buffer(0, 0, 1);
  EXPECT_EQ(Hex(chunk.substr(0, 40)),
            Joined("0200 0400 01000000 10000000 fefefefe"
                   "0000 0100 fefefefe 03 fefefefefefefe 0000803f 00000040"));
  EXPECT_EQ(chunk.size(), 48U);
}

TEST(FileWriter, PagesOfNullsOnlyAreConstantWithTheSameLayers) {
  auto lists = FromJson(arrow::list(arrow::int32()), "[null, [], [null]]");
  const Written file = Write({OneColumn(lists)}, WithVersion(kFileV21));
  const auto layout = file.Layout(0, 0).constant();
  EXPECT_THAT(layout.layers(), ::testing::ElementsAre(pb::encodings::NULLABLE_ITEM,
                                                      pb::encodings::NULL_AND_EMPTY_LIST));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 0)), Joined("0100 0100 0100"));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 1)), Joined("0200 0300 0100"));
  const Written flat =
      Write({OneColumn(FromJson(arrow::int32(), "[null, null]"))}, WithVersion(kFileV21));
  EXPECT_EQ(flat.columns[0].pages(0).buffer_offsets_size(), 0);
}

TEST(FileWriter, DictionaryPagesHoldTheirOwnDictionary) {
  auto roles =
      FromJson(arrow::dictionary(arrow::int8(), arrow::utf8()), R"(["user", "tool", "user"])");
  const Written file = Write({OneColumn(roles, false)}, WithVersion(kFileV21));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 0)), "1000");
  EXPECT_EQ(Hex(file.Buffer(0, 0, 1)), Joined("0000 0300 fefefefe 00 01 00 fefefefefe"));
  EXPECT_EQ(Hex(file.Buffer(0, 0, 2)),
            Joined("20000000 14000000 00000000 04000000 08000000") + Hex("usertool"));
  const auto& field = file.descriptor.schema().fields(0);
  EXPECT_EQ(field.logical_type(), "dict:string:int8:false");
  EXPECT_EQ(field.encoding(), 3);
  EXPECT_TRUE(field.has_dictionary());
}

TEST(FileWriter, PagesCloseAtRowsAndCoverAllOfThem) {
  arrow::Int64Builder builder;
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(builder.Append(i).ok());
  FileWriterOptions options;
  options.page_bytes = 800;
  const Written file = Write({OneColumn(builder.Finish().ValueOrDie(), false)}, options);
  ASSERT_EQ(file.columns[0].pages_size(), 10);
  for (int page = 0; page < 10; ++page) {
    EXPECT_EQ(file.columns[0].pages(page).length(), 100U);
    EXPECT_EQ(file.columns[0].pages(page).priority(), 100U * static_cast<uint64_t>(page));
  }
}

TEST(FileWriter, SlicedBatchesGiveTheSameFileAsCopies) {
  auto type = arrow::struct_({arrow::field("l", arrow::list(arrow::utf8())),
                              arrow::field("b", arrow::boolean()),
                              arrow::field("v", arrow::fixed_size_list(arrow::int16(), 3))});
  auto array = FromJson(type, R"([
      {"l": ["x"], "b": true, "v": [1, 2, 3]}, null, {"l": [], "b": null, "v": null},
      {"l": ["yy", null, "zzz"], "b": false, "v": [4, null, 6]}, {"l": null, "b": true, "v": [7, 8, 9]}])");
  auto slice = array->Slice(1, 3);
  auto copy = arrow::Concatenate({slice}).ValueOrDie();
  for (FileVersion version : {kFileV21, kFileV22}) {
    EXPECT_EQ(Write({OneColumn(slice)}, WithVersion(version)).bytes,
              Write({OneColumn(copy)}, WithVersion(version)).bytes);
  }
}

TEST(FileWriter, NullInANotNullColumnIsInvalidAndNamed) {
  object_store::MemoryStore store;
  FileSummary summary;
  const Status status =
      WriteAll({OneColumn(FromJson(arrow::int32(), "[1, null]"), false)}, {}, store, &summary);
  EXPECT_TRUE(Is(status, ErrorKind::kInvalid));
  EXPECT_THAT(status.message(), HasSubstr("column 'c' must not be null"));
  EXPECT_TRUE(Is(store.Get("f.lance").status(), ErrorKind::kNotFound));
}

TEST(FileWriter, NullBelowANullStructMayBreakNotNull) {
  auto type = arrow::struct_({arrow::field("x", arrow::int32(), false)});
  auto child = FromJson(arrow::int32(), "[1, null]");
  auto array = std::make_shared<arrow::StructArray>(
      type, 2, arrow::ArrayVector{child}, arrow::Buffer::FromString(std::string(1, '\x01')));
  const Written file = Write({OneColumn(array)}, {});
  EXPECT_EQ(file.summary.rows, 2U);
}

TEST(FileWriter, BatchOfOtherTypesIsInvalid) {
  object_store::MemoryStore store;
  FileSummary summary;
  const Status status = WriteAll(
      {OneColumn(FromJson(arrow::int32(), "[1]")), OneColumn(FromJson(arrow::int64(), "[1]"))}, {},
      store, &summary);
  EXPECT_TRUE(Is(status, ErrorKind::kInvalid));
  EXPECT_THAT(status.message(), HasSubstr("'c' of the batch is int64, the file has int32"));
}

TEST(FileWriter, MoreDistinctValuesThanTheIndexTypeCountsIsInvalid) {
  arrow::StringBuilder words;
  for (int i = 0; i < 129; ++i) ASSERT_TRUE(words.Append(fmt::format("w{}", i)).ok());
  auto dictionary = words.Finish().ValueOrDie();
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (int first : {0, 64, 65}) {
    arrow::Int8Builder indices;
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(indices.Append(static_cast<int8_t>(i)).ok());
    batches.push_back(OneColumn(arrow::DictionaryArray::FromArrays(
                                    arrow::dictionary(arrow::int8(), arrow::utf8()),
                                    indices.Finish().ValueOrDie(), dictionary->Slice(first, 64))
                                    .ValueOrDie()));
  }
  Write({batches[0], batches[1]}, {});
  object_store::MemoryStore store;
  FileSummary summary;
  const Status status = WriteAll(batches, {}, store, &summary);
  EXPECT_TRUE(Is(status, ErrorKind::kInvalid));
  EXPECT_THAT(status.message(), HasSubstr("column 'c': more than 128 distinct values"));
}

// A mapping that counts what was given back.
class CountingMapping : public env::MappedBuffer {
 public:
  explicit CountingMapping(const std::string& bytes)
      : MappedBuffer(reinterpret_cast<const uint8_t*>(bytes.data()),
                     static_cast<int64_t>(bytes.size())) {}
  void Release(int64_t, int64_t length) const override { released += length; }
  mutable int64_t released = 0;
};

TEST(FileWriter, MappedValuesAreStreamedAndTheirPagesGivenBack) {
  const std::string bytes = "small" + std::string(3 << 20, 'm') + std::string(20 << 10, 'n');
  auto mapping = std::make_shared<CountingMapping>(bytes);
  const std::vector<int64_t> offsets = {0, 5, 5 + (3 << 20), static_cast<int64_t>(bytes.size())};
  auto array =
      std::make_shared<arrow::LargeBinaryArray>(3, arrow::Buffer::FromVector(offsets), mapping);
  const Written file = Write({OneColumn(array, false)}, {});
  EXPECT_GE(mapping->released, (3 << 20) + (20 << 10));
  const std::string page = file.Buffer(0, 0, 0);
  ASSERT_EQ(page.size(), 3 * 8 + bytes.size());
  EXPECT_EQ(page.substr(8, 5), "small");
  EXPECT_EQ(page.substr(21, 3 << 20), bytes.substr(5, 3 << 20));
  EXPECT_EQ(page.substr(29 + (3 << 20)), bytes.substr(5 + (3 << 20)));
}

TEST(FileWriter, ChunksOfVersion21StayWithin32KiB) {
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::Int64Builder>());
  auto& items = static_cast<arrow::Int64Builder&>(*lists.value_builder());
  for (int row = 0; row < 20000; ++row) {
    ASSERT_TRUE((row % 6 == 0 ? lists.Append() : lists.AppendNull()).ok());
    if (row % 6 == 0) {
      ASSERT_TRUE(items.Append(row).ok());
    }
  }
  const Written file = Write({OneColumn(lists.Finish().ValueOrDie())}, WithVersion(kFileV21));
  const std::string words = file.Buffer(0, 0, 0);
  uint64_t bytes = 0;
  for (size_t i = 0; i < words.size(); i += 2) {
    uint16_t word;
    std::memcpy(&word, words.data() + i, 2);
    bytes += (static_cast<uint64_t>(word >> 4) + 1) * 8;
    if (i + 2 < words.size()) {
      EXPECT_GE(word & 15, 1);
    }
  }
  EXPECT_EQ(bytes, file.Buffer(0, 0, 1).size());
  EXPECT_GT(words.size(), 2U);
}

TEST(FileWriter, VersionsThatAreNotWrittenAreRefused) {
  object_store::MemoryStore store;
  const Schema schema =
      Schema::FromArrow(*arrow::schema({arrow::field("c", arrow::int32())})).ValueOrDie();
  auto made = FileWriter::Make(store.Create("f").ValueOrDie(), schema, WithVersion(kFileV20));
  EXPECT_TRUE(Is(made.status(), ErrorKind::kUnsupported));
}

}  // namespace
}  // namespace sarissa::lance
