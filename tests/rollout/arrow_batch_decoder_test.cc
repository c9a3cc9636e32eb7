#include "rollout/arrow_batch_decoder.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_primitive.h>
#include <arrow/array/util.h>
#include <arrow/builder.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/json/from_string.h>
#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "env/mapped_range.h"
#include "rollout/record_encoder.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kNow = 1704067200123456;

struct Col {
  std::string name;
  std::shared_ptr<arrow::Array> values;
};

std::shared_ptr<arrow::Array> Json(const std::shared_ptr<arrow::DataType>& type,
                                   const std::string& json) {
  return arrow::json::ArrayFromJSONString(type, json).ValueOrDie();
}

std::shared_ptr<arrow::Array> Texts(const std::string& json) {
  return Json(arrow::utf8(), json);
}

// Two rows with the required columns and `more`.
std::shared_ptr<arrow::RecordBatch> Batch(std::vector<Col> more) {
  more.insert(more.begin(), {{"id", Texts(R"(["a","b"])")}, {"rollout_id", Texts(R"(["r","s"])")}});
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const Col& col : more) {
    fields.push_back(arrow::field(col.name, col.values->type()));
    arrays.push_back(col.values);
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), arrays[0]->length(), arrays);
}

std::shared_ptr<arrow::Buffer> Stream(
    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
    const arrow::ipc::IpcWriteOptions& options = arrow::ipc::IpcWriteOptions::Defaults()) {
  const auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  const auto writer = arrow::ipc::MakeStreamWriter(out, batches[0]->schema(), options).ValueOrDie();
  for (const auto& batch : batches) EXPECT_TRUE(writer->WriteRecordBatch(*batch).ok());
  EXPECT_TRUE(writer->Close().ok());
  return out->Finish().ValueOrDie();
}

ArrowDecodeOptions Options() {
  ArrowDecodeOptions options;
  options.now = env::WallTime(std::chrono::microseconds(kNow));
  return options;
}

DecodedAppend Decode(const std::shared_ptr<arrow::Buffer>& body) {
  auto decoded = DecodeArrowAppend(body, Options());
  EXPECT_TRUE(decoded.ok()) << decoded.status().message();
  if (!decoded.ok()) return {};
  for (const auto& batch : decoded->batches) {
    EXPECT_TRUE(batch->ValidateFull().ok());
    EXPECT_TRUE(batch->schema()->Equals(*RecordSchema(), true));
  }
  return std::move(*decoded);
}

std::string RowsOf(const DecodedAppend& decoded) {
  std::string json;
  for (const auto& batch : decoded.batches) {
    if (!json.empty()) json += ',';
    EXPECT_TRUE(EncodeRecords(*batch, 0, batch->num_rows(), json).ok());
  }
  return json;
}

// What the same records give when they come as JSON.
std::string RowsOfJson(const std::string& records) {
  const auto decoded = DecodeAppend("{\"records\":[" + records + "]}", {}, {.now = Options().now});
  EXPECT_TRUE(decoded.ok()) << decoded.status().message();
  return RowsOf(*decoded);
}

void ExpectRefused(const std::shared_ptr<arrow::Buffer>& body, const std::string& part,
                   const ArrowDecodeOptions& options = Options()) {
  const Status status = DecodeArrowAppend(body, options).status();
  ASSERT_TRUE(Is(status, ErrorKind::kInvalid)) << status.ToString() << " instead of " << part;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

void ExpectRefused(std::vector<Col> more, const std::string& part) {
  ExpectRefused(Stream({Batch(std::move(more))}), part);
}

TEST(ArrowBatchDecoder, FillsTheDefaultsOfJson) {
  const auto decoded = Decode(Stream({Batch({})}));
  EXPECT_EQ(RowsOf(decoded),
            RowsOfJson(R"({"id":"a","rollout_id":"r"},{"id":"b","rollout_id":"s"})"));
  EXPECT_THAT(decoded.ids, ElementsAre("a", "b"));
  const auto& batch = *decoded.batches[0];
  EXPECT_EQ(static_cast<const arrow::TimestampArray&>(*batch.column(kCreatedAt)).Value(0), kNow);
  EXPECT_TRUE(batch.column(kRelationships)->IsValid(0));
  EXPECT_TRUE(batch.column(kBinaryPayload)->IsNull(0));
}

TEST(ArrowBatchDecoder, ANullIsWhatAnAbsentKeyIsInJson) {
  std::vector<Col> columns;
  for (int i = kProblemId; i < kColumnCount; ++i) {
    const auto& field = RecordSchema()->field(i);
    columns.push_back({field->name(), arrow::MakeArrayOfNull(field->type(), 2).ValueOrDie()});
  }
  const std::string want = RowsOfJson(R"({"id":"a","rollout_id":"r"},{"id":"b","rollout_id":"s"})");
  EXPECT_EQ(RowsOf(Decode(Stream({Batch(columns)}))), want);
  for (Col& column : columns) column.values = Json(arrow::null(), "[null,null]");
  EXPECT_EQ(RowsOf(Decode(Stream({Batch(columns)}))), want);
}

TEST(ArrowBatchDecoder, ReadsEveryColumnAsJsonDoes) {
  const auto text = [](const std::string& name) { return Col{name, Texts(R"(["x",null])")}; };
  std::vector<Col> columns = {
      {"sequence_order", Json(arrow::int32(), "[-3,4]")},
      {"created_at", Json(arrow::timestamp(arrow::TimeUnit::MICRO), "[1704067200000000,null]")},
      {"num_input_tokens", Json(arrow::int32(), "[1,null]")},
      {"num_output_tokens", Json(arrow::int32(), "[2,null]")},
      {"input_tokens", Json(arrow::list(arrow::int32()), "[[1,-2],null]")},
      {"output_tokens", Json(arrow::large_list(arrow::int32()), "[[],[7]]")},
      {"output_logprobs", Json(arrow::list(arrow::float32()), "[[-0.5,1],null]")},
      {"input_logprobs", Json(arrow::list(arrow::float32()), "[[0.25],[]]")},
      {"ref_logprobs", Json(arrow::list(arrow::null()), "[[],null]")},
      {"loss_mask", Json(arrow::list(arrow::int8()), "[[0,1,-128],null]")},
      {"advantage", Json(arrow::float32(), "[-0.0,null]")},
      {"reward", Json(arrow::float32(), "[1,null]")},
      {"raw_reward", Json(arrow::float32(), "[0.5,null]")},
      {"score", Json(arrow::float32(), "[0.25,null]")},
      {"include_in_training", Json(arrow::boolean(), "[false,null]")},
      {"binary_payload", Json(arrow::binary(), R"(["foo",null])")},
      {"payload_size", Json(arrow::int64(), "[3,null]")},
      {"metadata", Texts(R"(["{\"b\": 1, \"a\":[null]}","null"])")},
      {"relationships",
       Json(arrow::list(arrow::struct_({arrow::field("weight", arrow::float32()),
                                        arrow::field("relation", arrow::large_utf8()),
                                        arrow::field("target_id", arrow::utf8())})),
            R"([[{"weight":2,"relation":"of","target_id":"t"},
                 {"weight":null,"relation":"by","target_id":"u"}],[]])")}};
  for (const char* name :
       {"problem_id", "dataset", "role", "content", "content_type", "model_input_string",
        "model_output_string", "rationale", "problem_text", "user_metadata", "grader_id",
        "exclude_reason", "policy_version", "payload_checksum", "artifact_type"}) {
    columns.push_back(text(name));
  }
  ASSERT_EQ(columns.size(), static_cast<size_t>(kColumnCount) - 2);
  const auto decoded = Decode(Stream({Batch(columns)}));
  EXPECT_EQ(
      RowsOf(decoded),
      RowsOfJson(
          R"({"id":"a","rollout_id":"r","problem_id":"x","dataset":"x","sequence_order":-3,"role":"x",)"
          R"("created_at":"2024-01-01T00:00:00Z","content":"x","content_type":"x","model_input_string":"x",)"
          R"("model_output_string":"x","rationale":"x","problem_text":"x","user_metadata":"x",)"
          R"("input_tokens":[1,-2],"output_tokens":[],"num_input_tokens":1,"num_output_tokens":2,)"
          R"("output_logprobs":[-0.5,1],"input_logprobs":[0.25],"ref_logprobs":[],"loss_mask":[0,1,-128],)"
          R"("advantage":-0.0,"reward":1,"raw_reward":0.5,"grader_id":"x","score":0.25,)"
          R"("include_in_training":false,"exclude_reason":"x","policy_version":"x",)"
          R"("relationships":[{"target_id":"t","relation":"of","weight":2},{"target_id":"u","relation":"by"}],)"
          R"("binary_payload":"Zm9v","payload_size":3,"payload_checksum":"x","artifact_type":"x",)"
          R"("metadata":{"b":1,"a":[null]}},)"
          R"({"id":"b","rollout_id":"s","sequence_order":4,"output_tokens":[7],"input_logprobs":[]})"));
  EXPECT_EQ(decoded.payload_bytes, 3U);
}

TEST(ArrowBatchDecoder, TakesTextInEveryForm) {
  const std::string want = RowsOfJson(
      R"({"id":"a","rollout_id":"r","role":"tool","content":"x"},{"id":"b","rollout_id":"s","role":"user","content":"y"})");
  for (const auto& index : {arrow::int8(), arrow::uint8(), arrow::int16(), arrow::uint16(),
                            arrow::int32(), arrow::uint32(), arrow::int64(), arrow::uint64()}) {
    for (const auto& text : {arrow::utf8(), arrow::large_utf8()}) {
      const auto type = arrow::dictionary(index, text);
      const auto decoded = Decode(Stream({Batch(
          {{"role", Json(type, R"(["tool","user"])")}, {"content", Json(type, R"(["x","y"])")}})}));
      EXPECT_EQ(RowsOf(decoded), want) << type->ToString();
    }
  }
  EXPECT_EQ(RowsOf(Decode(Stream({Batch({{"role", Json(arrow::large_utf8(), R"(["tool","user"])")},
                                         {"content", Texts(R"(["x","y"])")}})}))),
            want);
}

TEST(ArrowBatchDecoder, TakesSlicesCompressionAndManyBatches) {
  const auto batch = Batch({{"output_tokens", Json(arrow::list(arrow::int32()), "[[1,2],[3]]")}});
  const std::string want = RowsOfJson(
      R"({"id":"a","rollout_id":"r","output_tokens":[1,2]},{"id":"b","rollout_id":"s","output_tokens":[3]})");
  EXPECT_EQ(RowsOf(Decode(Stream({batch->Slice(0, 1), batch->Slice(1, 0), batch->Slice(1, 1)}))),
            want);
  for (const auto codec : {arrow::Compression::LZ4_FRAME, arrow::Compression::ZSTD}) {
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.codec = arrow::util::Codec::Create(codec).ValueOrDie();
    EXPECT_EQ(RowsOf(Decode(Stream({batch}, options))), want);
  }
}

TEST(ArrowBatchDecoder, ALargePayloadIsABatchOfItsOwn) {
  const std::string large(static_cast<size_t>(env::kMapThresholdBytes), 'x');
  arrow::LargeBinaryBuilder builder;
  ASSERT_TRUE(builder.Append("small").ok());
  ASSERT_TRUE(builder.Append(large).ok());
  const auto decoded = Decode(Stream({Batch({{"binary_payload", builder.Finish().ValueOrDie()}})}));
  ASSERT_EQ(decoded.batches.size(), 2U);
  const auto& payloads =
      static_cast<const arrow::LargeBinaryArray&>(*decoded.batches[1]->column(kBinaryPayload));
  EXPECT_EQ(payloads.GetView(0), large);
  EXPECT_EQ(decoded.payload_bytes, large.size() + 5);
  EXPECT_THAT(decoded.ids, ElementsAre("a", "b"));
}

TEST(ArrowBatchDecoder, ARefusedColumnIsNamed) {
  ExpectRefused({{"colour", Texts(R"(["x","y"])")}}, "column 'colour': a record has no such field");
  ExpectRefused({{"id", Texts(R"(["x","y"])")}}, "column 'id': is there twice");
  ExpectRefused({{"reward", Json(arrow::float64(), "[1,2]")}},
                "column 'reward': expected float, got double");
  ExpectRefused({{"sequence_order", Json(arrow::int64(), "[1,2]")}},
                "column 'sequence_order': expected int32, got int64");
  ExpectRefused({{"content", Json(arrow::binary(), R"(["x","y"])")}},
                "column 'content': expected string, got binary");
  ExpectRefused({{"created_at", Json(arrow::timestamp(arrow::TimeUnit::NANO), "[1,2]")}},
                "column 'created_at': expected timestamp[us], got timestamp[ns]");
  ExpectRefused({{"input_tokens", Json(arrow::list(arrow::int64()), "[[1],[2]]")}},
                "column 'input_tokens': expected list<item: int32>");
  ExpectRefused(
      {{"relationships",
        Json(arrow::list(arrow::struct_({arrow::field("target_id", arrow::utf8())})), "[[],[]]")}},
      "column 'relationships': missing field 'relation'");
  const auto batch = Batch({})->RemoveColumn(1).ValueOrDie();
  ExpectRefused(Stream({batch}), "column 'rollout_id': missing required column");
}

TEST(ArrowBatchDecoder, ARefusedValueNamesBatchRowAndColumn) {
  const auto relationships = arrow::list(arrow::struct_(
      {arrow::field("target_id", arrow::utf8()), arrow::field("relation", arrow::utf8())}));
  ExpectRefused({{"metadata", Texts(R"(["1","{"])")}}, "batch 0, row 1: metadata: not JSON: ");
  ExpectRefused({{"metadata", Texts(R"(["1","1 2"])")}}, "batch 0, row 1: metadata: not JSON: ");
  ExpectRefused({{"reward", Json(arrow::float32(), "[1,NaN]")}},
                "batch 0, row 1: reward: not a finite number");
  ExpectRefused({{"input_tokens", Json(arrow::list(arrow::int32()), "[[1],[2,null]]")}},
                "batch 0, row 1: input_tokens[1]: must not be null");
  ExpectRefused({{"input_tokens", Json(arrow::list(arrow::null()), "[[],[null]]")}},
                "batch 0, row 1: input_tokens[0]: must not be null");
  ExpectRefused({{"output_logprobs", Json(arrow::list(arrow::float32()), "[[1],[Inf]]")}},
                "batch 0, row 1: output_logprobs[0]: not a finite number");
  ExpectRefused(
      {{"relationships", Json(relationships, R"([[],[{"target_id":"t","relation":null}]])")}},
      "batch 0, row 1: relationships[0]: relation: must not be null");
  ExpectRefused(
      {{"created_at", Json(arrow::timestamp(arrow::TimeUnit::MICRO), "[0,9223372036854775807]")}},
      "batch 0, row 1: created_at: the year is out of range");
  const auto good = Batch({});
  const auto bad =
      good->SetColumn(0, arrow::field("id", arrow::utf8()), Texts(R"(["c",null])")).ValueOrDie();
  ExpectRefused(Stream({good, bad}), "batch 1, row 1: id: missing required field");
}

TEST(ArrowBatchDecoder, TextMustBeUtf8) {
  arrow::BinaryBuilder builder;
  ASSERT_TRUE(builder.Append("ok").ok());
  ASSERT_TRUE(builder.Append("\xff").ok());
  const auto text = builder.Finish().ValueOrDie()->View(arrow::utf8()).ValueOrDie();
  ExpectRefused({{"content", text}}, "batch 0: ");
}

TEST(ArrowBatchDecoder, TheLimitOnRolesIsThatOfJson) {
  arrow::StringBuilder ids;
  arrow::StringBuilder roles;
  for (int i = 0; i < 129; ++i) {
    ASSERT_TRUE(ids.Append("x").ok());
    ASSERT_TRUE(roles.Append(std::to_string(i)).ok());
  }
  const auto text = ids.Finish().ValueOrDie();
  const auto batch = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("id", arrow::utf8()), arrow::field("rollout_id", arrow::utf8()),
                     arrow::field("role", arrow::utf8())}),
      129, {text, text, roles.Finish().ValueOrDie()});
  Decode(Stream({batch->Slice(0, 128)}));
  ExpectRefused(Stream({batch}), "batch 0, row 128: role: a store holds at most 128");
}

TEST(ArrowBatchDecoder, ABodyThatIsCutOffOrGoesOnIsRefused) {
  const auto body = Stream({Batch({})});
  for (int64_t size = 0; size < body->size(); ++size) {
    EXPECT_TRUE(Is(DecodeArrowAppend(arrow::SliceBuffer(body, 0, size), Options()).status(),
                   ErrorKind::kInvalid))
        << size;
  }
  ExpectRefused(arrow::Buffer::FromString(body->ToString() + "x"), "1 bytes after the end");
  ExpectRefused(arrow::Buffer::FromString("{}"), "");
  ExpectRefused(Stream({Batch({})->Slice(0, 0)}), "the Arrow stream has no rows");
}

TEST(ArrowBatchDecoder, WhatTheBodyMakesOfItselfIsBounded) {
  // Many rows that name one long value of a dictionary.
  arrow::StringBuilder values;
  ASSERT_TRUE(values.Append(std::string(100'000, 'x')).ok());
  arrow::Int8Builder codes;
  ASSERT_TRUE(codes.AppendValues(std::vector<int8_t>(1000, 0)).ok());
  const auto type = arrow::dictionary(arrow::int8(), arrow::utf8());
  const auto text = arrow::DictionaryArray::FromArrays(type, codes.Finish().ValueOrDie(),
                                                       values.Finish().ValueOrDie())
                        .ValueOrDie();
  const auto expanding = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("id", type), arrow::field("rollout_id", type)}), 1000,
      {text, text});
  ArrowDecodeOptions options = Options();
  options.max_bytes = 1 << 20;
  ExpectRefused(Stream({expanding}), "the values of the rows so far take more than", options);

  // A buffer that is long only once it is decompressed.
  const std::string zeros(4 << 20, '\0');
  arrow::LargeBinaryBuilder payload;
  ASSERT_TRUE(payload.Append(zeros).ok());
  ASSERT_TRUE(payload.AppendNull().ok());
  auto write = arrow::ipc::IpcWriteOptions::Defaults();
  write.codec = arrow::util::Codec::Create(arrow::Compression::ZSTD).ValueOrDie();
  const auto bomb = Stream({Batch({{"binary_payload", payload.Finish().ValueOrDie()}})}, write);
  ExpectRefused(bomb, "bytes of memory", options);
}

TEST(ArrowBatchDecoder, AChargeThatIsRefusedEndsTheDecoding) {
  ArrowDecodeOptions options = Options();
  options.charge = [](int64_t) { return Error(ErrorKind::kOverloaded, "full"); };
  EXPECT_TRUE(Is(DecodeArrowAppend(Stream({Batch({})}), options).status(), ErrorKind::kOverloaded));
  auto write = arrow::ipc::IpcWriteOptions::Defaults();
  write.codec = arrow::util::Codec::Create(arrow::Compression::ZSTD).ValueOrDie();
  EXPECT_TRUE(
      Is(DecodeArrowAppend(Stream({Batch({})}, write), options).status(), ErrorKind::kOverloaded));
}

}  // namespace
}  // namespace sarissa::rollout
