#include "rollout/record_decoder.h"

#include <arrow/array/array_binary.h>
#include <arrow/array/array_dict.h>
#include <arrow/array/array_primitive.h>
#include <arrow/scalar.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "env/mapped_range.h"
#include "rollout/record_encoder.h"
#include "rollout/record_schema.h"

namespace sarissa::rollout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kNow = 1704067200123456;

DecodeOptions Options(bool multipart = false) {
  return DecodeOptions{env::WallTime(std::chrono::microseconds(kNow)), multipart};
}

// A record with the required fields and `more`, which starts with a comma if it is not empty.
std::string Record(const std::string& more, const std::string& id = "a") {
  return R"({"id":")" + id + R"(","rollout_id":"r")" + more + "}";
}

std::string Body(const std::string& records) {
  return "{\"records\":[" + records + "]}";
}

DecodedAppend Decode(const std::string& body, const PayloadParts& parts = {},
                     bool multipart = false) {
  auto decoded = DecodeAppend(body, parts, Options(multipart));
  EXPECT_TRUE(decoded.ok()) << decoded.status().message() << "\n" << body.substr(0, 300);
  for (const auto& batch : decoded->batches) EXPECT_TRUE(batch->ValidateFull().ok());
  return std::move(*decoded);
}

std::shared_ptr<arrow::RecordBatch> DecodeOne(const std::string& more) {
  auto decoded = Decode(Body(Record(more)));
  EXPECT_EQ(decoded.batches.size(), 1U);
  return decoded.batches[0];
}

std::string Cell(const arrow::RecordBatch& batch, Column column, int64_t row = 0) {
  return batch.column(column)->GetScalar(row).ValueOrDie()->ToString();
}

void ExpectRefused(const std::string& body, const std::string& part, const PayloadParts& parts = {},
                   bool multipart = false) {
  const Status status = DecodeAppend(body, parts, Options(multipart)).status();
  ASSERT_TRUE(Is(status, ErrorKind::kInvalid)) << body.substr(0, 300);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part)) << body.substr(0, 300);
}

void ExpectFieldRefused(const std::string& more, const std::string& part) {
  ExpectRefused(Body(Record("") + "," + Record(more)), part);
}

TEST(RecordDecoder, FillsTheDefaults) {
  const auto batch = DecodeOne("");
  EXPECT_TRUE(batch->schema()->Equals(*RecordSchema(), true));
  EXPECT_EQ(Cell(*batch, kProblemId), "r");
  EXPECT_EQ(Cell(*batch, kSequenceOrder), "0");
  EXPECT_EQ(static_cast<const arrow::StringArray&>(
                *static_cast<const arrow::DictionaryArray&>(*batch->column(kRole)).dictionary())
                .GetView(0),
            "assistant");
  EXPECT_EQ(static_cast<const arrow::TimestampArray&>(*batch->column(kCreatedAt)).Value(0), kNow);
  EXPECT_EQ(Cell(*batch, kContentType), "text/plain");
  EXPECT_TRUE(batch->column(kRelationships)->IsValid(0));
  for (int i = 0; i < kColumnCount; ++i) {
    if (RecordSchema()->field(i)->nullable() && i != kRelationships) {
      EXPECT_TRUE(batch->column(i)->IsNull(0)) << RecordSchema()->field(i)->name();
    }
  }
}

TEST(RecordDecoder, TakesNullExactlyWhereTheContractDoes) {
  for (const auto& field : RecordSchema()->fields()) {
    const bool refused = field->name() == "id" || field->name() == "rollout_id" ||
                         field->name() == "sequence_order" || field->name() == "role" ||
                         field->name() == "content_type" || field->name() == "relationships";
    std::string record = "{\"" + field->name() + "\":null";
    if (field->name() != "id") record += ",\"id\":\"a\"";
    if (field->name() != "rollout_id") record += ",\"rollout_id\":\"r\"";
    record += "}";
    EXPECT_EQ(DecodeAppend(Body(record), {}, Options()).ok(), !refused) << field->name();
  }
  const auto batch = DecodeOne(R"(,"problem_id":null,"created_at":null)");
  EXPECT_EQ(Cell(*batch, kProblemId), "r");
  EXPECT_EQ(static_cast<const arrow::TimestampArray&>(*batch->column(kCreatedAt)).Value(0), kNow);
}

TEST(RecordDecoder, DefaultsDoNotDependOnTheOrderOfKeys) {
  const auto decoded = Decode(Body(R"({"sequence_order":7,"rollout_id":"late","id":"x"})"));
  EXPECT_EQ(Cell(*decoded.batches[0], kProblemId), "late");
  EXPECT_EQ(Cell(*decoded.batches[0], kSequenceOrder), "7");
}

TEST(RecordDecoder, ReadsEveryColumn) {
  const auto batch = DecodeOne(
      R"(,"problem_id":"p","dataset":"d","sequence_order":-3,"role":"tool","created_at":"2024-01-01T01:00:00+01:00",)"
      R"("content":"c","content_type":"x/y","model_input_string":"mi","model_output_string":"mo","rationale":"ra",)"
      R"("problem_text":"pt","user_metadata":"um","input_tokens":[1,-2,2147483647,-2147483648],"output_tokens":[],)"
      R"("num_input_tokens":4,"num_output_tokens":0,"output_logprobs":[-0.5,1,1e-3],"input_logprobs":[ ],)"
      R"("ref_logprobs":[0.25],"loss_mask":[0,1,-128,127],"advantage":-0.0,"reward":1,"raw_reward":1e-45,)"
      R"("grader_id":"g","score":0.1,"include_in_training":false,"exclude_reason":"e","policy_version":"v",)"
      R"("relationships":[{"relation":"of","target_id":"t","weight":2,"x":[{}]},{"target_id":"u","relation":"by","weight":null}],)"
      R"("binary_payload":"Zm9v","payload_size":3,"payload_checksum":"not checked","artifact_type":"at","metadata":{"b":1,"a":[null]})");
  std::string json;
  ASSERT_TRUE(EncodeRecords(*batch, 0, 1, json).ok());
  EXPECT_EQ(
      json,
      R"({"id":"a","rollout_id":"r","problem_id":"p","dataset":"d","sequence_order":-3,"role":"tool",)"
      R"("created_at":"2024-01-01T00:00:00Z","content":"c","content_type":"x/y","model_input_string":"mi",)"
      R"("model_output_string":"mo","rationale":"ra","problem_text":"pt","user_metadata":"um",)"
      R"("input_tokens":[1,-2,2147483647,-2147483648],"output_tokens":[],"num_input_tokens":4,"num_output_tokens":0,)"
      R"("output_logprobs":[-0.5,1.0,0.001],"input_logprobs":[],"ref_logprobs":[0.25],"loss_mask":[0,1,-128,127],)"
      R"("advantage":-0.0,"reward":1.0,"raw_reward":1e-45,"grader_id":"g","score":0.1,"include_in_training":false,)"
      R"("exclude_reason":"e","policy_version":"v","relationships":[{"target_id":"t","relation":"of","weight":2.0},)"
      R"({"target_id":"u","relation":"by"}],"payload_size":3,"payload_checksum":"not checked","artifact_type":"at",)"
      R"("metadata":{"a":[null],"b":1}})");
  EXPECT_EQ(static_cast<const arrow::LargeBinaryArray&>(*batch->column(kBinaryPayload)).GetView(0),
            "foo");
}

TEST(RecordDecoder, UnknownKeysAreIgnoredButMustBeJson) {
  Decode(R"({"x":{"records":[1]},"records":[)" +
         Record(R"(,"extra":{"id":[1,"\u0041"]},"\u0069d2":null)") + R"(],"y":1.5e3})");
  ExpectFieldRefused(R"(,"extra":NaN)", "records[1]");
  ExpectFieldRefused(R"(,"extra":[1,2,{"a":tru}])", "records[1]: malformed JSON value (byte ");
  ExpectFieldRefused(R"(,"extra":"\ud800")", "lone surrogate");
  ExpectFieldRefused(R"(,"extra":"\q")", "escape");
  ExpectFieldRefused(R"(,"\ud800":1)", "lone surrogate");
  ExpectFieldRefused(R"(,"extra":01)", "");
  ExpectFieldRefused(R"(,"extra":[1})", "");
  ExpectRefused(R"({"x":-,"records":[)" + Record("") + "]}", "");
  ExpectRefused(Body(Record("")).substr(0, Body(Record("")).size() - 1) + R"(,"x":[Infinity]})",
                "");
}

TEST(RecordDecoder, EscapedKeysNameTheSameField) {
  const auto batch = DecodeOne(R"(,"\u0072eward":2)");
  EXPECT_EQ(Cell(*batch, kReward), "2");
  ExpectFieldRefused(R"(,"reward":1,"\u0072eward":2)", "records[1].reward: duplicate key");
}

TEST(RecordDecoder, DuplicateKeysOfTypedFieldsAreRefused) {
  ExpectFieldRefused(R"(,"id":"b")", "records[1].id: duplicate key");
  ExpectFieldRefused(R"(,"score":null,"score":1)", "records[1].score: duplicate key");
  ExpectFieldRefused(R"(,"relationships":[{"target_id":"a","target_id":"a","relation":"b"}])",
                     "records[1].relationships[0]: duplicate key 'target_id'");
  ExpectRefused(R"({"records":[)" + Record("") + R"(],"records":[]})", "duplicate key 'records'");
  Decode(Body(Record(R"(,"unknown":1,"unknown":2)")));
}

TEST(RecordDecoder, TheDocumentMustBeOneObjectWithRecords) {
  ExpectRefused("{}", "missing key 'records'");
  ExpectRefused(R"({"records":[]})", "records must not be empty");
  ExpectRefused(R"({"records":null})", "records: expected an array");
  ExpectRefused(R"({"records":{}})", "records: expected an array");
  ExpectRefused(R"({"records":[1]})", "records[0]: expected an object");
  ExpectRefused(R"({"records":[null]})", "records[0]: expected an object");
  for (const std::string body :
       {"", " ", "[]", "null", "1", "\"a\"", "{", "}", "[{]}", "{\"records\"}"}) {
    ExpectRefused(body, "");
  }
}

TEST(RecordDecoder, TrailingGarbageIsRefused) {
  const std::string body = Body(Record(""));
  for (const char* tail : {"x", "{}", " {}", "]", "}", ",", "\"a\"", "\x01"}) {
    ExpectRefused(body + tail, "");
  }
  ExpectRefused(body + std::string(1, '\0'), "");
  Decode(" \n\t" + body + "\r\n ");
}

TEST(RecordDecoder, MalformedJsonIsRefusedWhereverItIs) {
  for (const char* more : {R"(,)",
                           R"(,"reward")",
                           R"(,"reward":)",
                           R"(,"reward" 1)",
                           R"("reward":1)",
                           R"(,reward:1)",
                           R"(,"content":"a)",
                           R"(,"content":"a" "b")",
                           R"(,"reward":1 2)",
                           R"(,"reward":1,)",
                           R"(,"input_tokens":[1,])",
                           R"(,"input_tokens":[1 2])",
                           R"(,"input_tokens":[,1])",
                           R"(,"input_tokens":[1)",
                           R"(,"input_tokens":[1}])",
                           R"(,"metadata":{"a":1)",
                           R"(,"metadata":[1}})",
                           R"(,"include_in_training":truex)",
                           R"(,"reward":1x)",
                           R"(,"reward":1.)",
                           R"(,"reward":.5)",
                           R"(,"reward":+1)",
                           R"(,"reward":01)",
                           R"(,"reward":1e)",
                           R"(,"reward":0x10)"}) {
    ExpectFieldRefused(more, "");
  }
  ExpectFieldRefused(",\"content\":\"a\nb\"", "");
  ExpectFieldRefused(",\"content\":\"\xFF\"", "");
  ExpectFieldRefused(",\"extra\":\"\xED\xA0\x80\"", "");
  ExpectFieldRefused(R"(,"reward":NaN)", "");
  ExpectFieldRefused(R"(,"reward":-Infinity)", "");
  ExpectFieldRefused(R"(,"output_logprobs":[NaN])", "");
  ExpectFieldRefused(R"(,"metadata":NaN)", "");
  ExpectFieldRefused(R"(,"metadata":{"a":"\ud800"})", "records[1].metadata: lone surrogate");
  ExpectFieldRefused(R"(,"content":"\udc00")", "records[1].content: lone surrogate");
  ExpectFieldRefused(R"(,"content":"\ud800\ud800")", "lone surrogate");
}

TEST(RecordDecoder, EveryTruncationAndUnbalancedBodyIsRefused) {
  const std::string body =
      Body(Record(R"(,"relationships":[{"target_id":"a","relation":"b"}],"metadata":{"a":[{}]})"));
  for (size_t size = 0; size < body.size(); ++size) {
    ExpectRefused(body.substr(0, size), "");
    ExpectRefused(body + body.substr(size), "");
    if (size + 1 < body.size()) ExpectRefused(body.substr(0, size) + "}", "");
  }
}

TEST(RecordDecoder, NestingIsLimitedTo64) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  Decode(Body(Record(",\"metadata\":" + nested(61))));
  ExpectFieldRefused(",\"metadata\":" + nested(62), "nested deeper than 64");
  Decode(Body(Record(",\"extra\":" + nested(61))));
  ExpectFieldRefused(",\"extra\":" + nested(62), "nested deeper than 64");
  ExpectFieldRefused(",\"extra\":" + nested(200'000), "nested deeper than 64");
  ExpectFieldRefused(",\"metadata\":" + nested(200'000), "nested deeper than 64");
  ExpectRefused(nested(200'000), "");
}

TEST(RecordDecoder, RequiredFieldsAreRequired) {
  ExpectRefused(Body(R"({"rollout_id":"r"})"), "records[0].id: missing");
  ExpectRefused(Body(Record("") + R"(,{"id":"r"})"), "records[1].rollout_id: missing");
  ExpectRefused(Body(R"({"id":null,"rollout_id":"r"})"),
                "records[0].id: expected a string, got null");
  EXPECT_THAT(Decode(Body(R"({"id":"","rollout_id":""})")).ids, ElementsAre(""));
}

TEST(RecordDecoder, IntegersMustBeJsonIntegersInRange) {
  ExpectFieldRefused(R"(,"sequence_order":1.0)", "records[1].sequence_order: expected an integer");
  ExpectFieldRefused(R"(,"sequence_order":1e2)", "expected an integer");
  ExpectFieldRefused(R"(,"sequence_order":"1")", "expected an integer, got a string");
  ExpectFieldRefused(R"(,"sequence_order":true)", "expected an integer, got a boolean");
  ExpectFieldRefused(R"(,"sequence_order":2147483648)", "out of range -2147483648 to 2147483647");
  ExpectFieldRefused(R"(,"num_input_tokens":-2147483649)",
                     "out of range -2147483648 to 2147483647");
  ExpectFieldRefused(R"(,"num_input_tokens":123456789012345678901234567890)",
                     "out of range -2147483648");
  ExpectFieldRefused(R"(,"payload_size":9223372036854775808)",
                     "out of range -9223372036854775808 to 9223372036854775807");
  ExpectFieldRefused(R"(,"sequence_order":007)", "leading zero");
  EXPECT_EQ(Cell(*DecodeOne(R"(,"payload_size":9223372036854775807)"), kPayloadSize),
            "9223372036854775807");
  EXPECT_EQ(Cell(*DecodeOne(R"(,"payload_size":-9223372036854775808)"), kPayloadSize),
            "-9223372036854775808");
}

TEST(RecordDecoder, ArrayErrorsNameTheElement) {
  ExpectFieldRefused(R"(,"input_tokens":[1,null])",
                     "records[1].input_tokens[1]: expected an integer, got null");
  ExpectFieldRefused(R"(,"output_logprobs":[0.1,2,null])",
                     "records[1].output_logprobs[2]: expected a number, got null");
  ExpectFieldRefused(R"(,"loss_mask":[128])",
                     "records[1].loss_mask[0]: 128 is out of range -128 to 127");
  ExpectFieldRefused(R"(,"loss_mask":[0,-129])", "records[1].loss_mask[1]");
  ExpectFieldRefused(R"(,"input_tokens":[[1]])",
                     "records[1].input_tokens[0]: expected an integer, got an array");
  ExpectFieldRefused(R"(,"input_tokens":5)",
                     "records[1].input_tokens: expected an array, got a number");
}

TEST(RecordDecoder, FloatsTakeAnyNumberThatAFloat32CanHold) {
  EXPECT_EQ(Cell(*DecodeOne(R"(,"reward":16777217.000000001)"), kReward), "16777218");
  const auto zero = DecodeOne(R"(,"reward":-0.0,"score":1e-400,"advantage":1e-45)");
  EXPECT_TRUE(std::signbit(static_cast<const arrow::FloatArray&>(*zero->column(kReward)).Value(0)));
  EXPECT_EQ(static_cast<const arrow::FloatArray&>(*zero->column(kScore)).Value(0), 0.0F);
  EXPECT_GT(static_cast<const arrow::FloatArray&>(*zero->column(kAdvantage)).Value(0), 0.0F);
  ExpectFieldRefused(R"(,"reward":1e39)", "records[1].reward: 1e39 is out of range for float32");
  ExpectFieldRefused(R"(,"output_logprobs":[0,-1e400])",
                     "records[1].output_logprobs[1]: -1e400 is out of range for float32");
  ExpectFieldRefused(R"(,"reward":"1")", "expected a number, got a string");
}

TEST(RecordDecoder, StringsKeepNulsAndFourByteCharacters) {
  const auto batch = DecodeOne(R"(,"content":"a\u0000b\ud83d\ude00\/\n")");
  EXPECT_EQ(static_cast<const arrow::LargeStringArray&>(*batch->column(kContent)).GetView(0),
            std::string_view("a\0b\xF0\x9F\x98\x80/\n", 9));
}

TEST(RecordDecoder, MetadataIsCanonicalTextAndNullIsANullColumn) {
  const auto text = [](const std::string& value) {
    const auto batch = DecodeOne(",\"metadata\":" + value);
    return std::string(
        static_cast<const arrow::LargeStringArray&>(*batch->column(kMetadata)).GetView(0));
  };
  EXPECT_EQ(text(R"({"z":{"y":1,"x":2},"a":18446744073709551615})"),
            R"({"a":18446744073709551615,"z":{"x":2,"y":1}})");
  EXPECT_EQ(text("[]"), "[]");
  EXPECT_EQ(text("\"str\""), "\"str\"");
  EXPECT_EQ(text("true"), "true");
  EXPECT_EQ(text("-0.0"), "-0.0");
  EXPECT_TRUE(DecodeOne(",\"metadata\":null")->column(kMetadata)->IsNull(0));
}

TEST(RecordDecoder, CreatedAtNeedsAZone) {
  ExpectFieldRefused(R"(,"created_at":"2024-01-01T00:00:00")",
                     "records[1].created_at: invalid RFC 3339 timestamp: the zone");
  ExpectFieldRefused(R"(,"created_at":1704067200)", "records[1].created_at: expected a string");
}

TEST(RecordDecoder, RelationshipsAreCheckedMemberByMember) {
  ExpectFieldRefused(R"(,"relationships":{})",
                     "records[1].relationships: expected an array, got an object");
  ExpectFieldRefused(R"(,"relationships":[null])",
                     "records[1].relationships[0]: expected an object, got null");
  ExpectFieldRefused(R"(,"relationships":[{"target_id":"a"}])",
                     "records[1].relationships[0]: missing 'relation'");
  ExpectFieldRefused(R"(,"relationships":[{"target_id":null,"relation":"a"}])",
                     "relationships[0]: target_id: expected a string");
  ExpectFieldRefused(R"(,"relationships":[{"target_id":"a","relation":"b","weight":"c"}])",
                     "relationships[0]: weight: expected a number");
}

TEST(RecordDecoder, AtMost128RolesInOneRequest) {
  std::string records;
  for (int i = 0; i < 128; ++i) {
    if (i != 0) records += ',';
    records += Record(R"(,"role":"role)" + std::to_string(i) + "\"");
  }
  const auto decoded = Decode(Body(records + "," + Record(R"(,"role":"role5")")));
  EXPECT_EQ(decoded.batches[0]->num_rows(), 129);
  ExpectRefused(Body(records + "," + Record(R"(,"role":"one more")")),
                "records[128].role: a store holds at most 128 distinct roles");
  ExpectRefused(Body(records + "," + Record("")),
                "records[128].role: a store holds at most 128 distinct roles");
}

TEST(RecordDecoder, IdsComeBackInOrderWithDuplicates) {
  EXPECT_THAT(Decode(Body(Record("", "b") + "," + Record("", "a") + "," + Record("", "b"))).ids,
              ElementsAre("b", "a", "b"));
}

std::string_view Payload(const arrow::RecordBatch& batch, int64_t row) {
  return static_cast<const arrow::LargeBinaryArray&>(*batch.column(kBinaryPayload)).GetView(row);
}

std::shared_ptr<arrow::Buffer> Bytes(std::string text) {
  return arrow::Buffer::FromString(std::move(text));
}

TEST(RecordDecoder, PartsOverrideInlinePayloads) {
  const auto decoded = Decode(
      Body(Record(R"(,"binary_payload":"Zm9v")") + "," + Record(R"(,"binary_payload":"Zm9v")")),
      {{1, Bytes("part")}}, true);
  EXPECT_EQ(Payload(*decoded.batches[0], 0), "foo");
  EXPECT_EQ(Payload(*decoded.batches[0], 1), "part");
  EXPECT_EQ(decoded.payload_bytes, 7U);
  ExpectRefused(Body(Record(R"(,"binary_payload":"!")")),
                "records[0].binary_payload: invalid base64", {{0, Bytes("x")}}, true);
}

TEST(RecordDecoder, AnEmptyPayloadIsNotNull) {
  const auto decoded =
      Decode(Body(Record("") + "," + Record(R"(,"binary_payload":"")") + "," + Record("")),
             {{0, Bytes("")}}, true);
  EXPECT_TRUE(decoded.batches[0]->column(kBinaryPayload)->IsValid(0));
  EXPECT_TRUE(decoded.batches[0]->column(kBinaryPayload)->IsValid(1));
  EXPECT_TRUE(decoded.batches[0]->column(kBinaryPayload)->IsNull(2));
}

TEST(RecordDecoder, InlineBase64MayBeEscaped) {
  EXPECT_EQ(Payload(*DecodeOne(R"(,"binary_payload":"\/\/\/\/")"), 0), "\xFF\xFF\xFF");
}

TEST(RecordDecoder, MultipartChecksPayloadSizes) {
  const std::string body = Body(Record(R"(,"payload_size":3)"));
  Decode(body, {{0, Bytes("foo")}}, true);
  ExpectRefused(body, "records[0].payload_size: 3 bytes declared, but part 0 has 4",
                {{0, Bytes("four")}}, true);
  ExpectRefused(body, "records[0].payload_size: 3 bytes declared, but the record has no payload",
                {}, true);
  Decode(Body(Record(R"(,"payload_size":99,"binary_payload":"Zm9v")")), {}, true);
  Decode(Body(Record(R"(,"payload_size":null)")), {}, true);
}

TEST(RecordDecoder, JsonModeDoesNotCompareSizes) {
  Decode(Body(Record(R"(,"payload_size":3)")));
  Decode(Body(Record(R"(,"payload_size":-5,"binary_payload":"Zm9v")")));
}

TEST(RecordDecoder, PartsNeedTheirRecord) {
  ExpectRefused(Body(Record("")), "part 1 has no record", {{1, Bytes("x")}}, true);
}

TEST(RecordDecoder, ALargePartIsABatchOfItsOwnWithoutACopy) {
  const auto large = Bytes(std::string(static_cast<size_t>(env::kMapThresholdBytes), 'L'));
  const std::string record = Record(R"(,"role":"tool")");
  const auto decoded =
      Decode(Body(Record("") + "," + record + "," + record + "," + Record("") + "," + record),
             {{0, Bytes("small")}, {2, large}, {4, large}}, true);
  ASSERT_EQ(decoded.batches.size(), 4U);
  EXPECT_EQ(decoded.batches[0]->num_rows(), 2);
  EXPECT_EQ(decoded.batches[1]->num_rows(), 1);
  EXPECT_EQ(decoded.batches[2]->num_rows(), 1);
  for (const size_t own : {1U, 3U}) {
    const auto& data = *decoded.batches[own]->column(kBinaryPayload)->data();
    EXPECT_EQ(data.offset, 0);
    EXPECT_EQ(data.buffers[2].get(), large.get());
  }
  EXPECT_EQ(Payload(*decoded.batches[0], 0), "small");
  EXPECT_TRUE(decoded.batches[2]->column(kBinaryPayload)->IsNull(0));
  EXPECT_EQ(decoded.ids.size(), 5U);
}

TEST(RecordDecoder, ALargeInlinePayloadIsABatchOfItsOwn) {
  std::string base64(static_cast<size_t>(env::kMapThresholdBytes) / 3 * 4 + 4, 'A');
  const auto decoded =
      Decode(Body(Record("", "x") + "," + Record(",\"binary_payload\":\"" + base64 + "\"", "y") +
                  "," + Record("", "z")));
  ASSERT_EQ(decoded.batches.size(), 3U);
  EXPECT_EQ(Cell(*decoded.batches[0], kId), "x");
  EXPECT_EQ(Cell(*decoded.batches[1], kId), "y");
  EXPECT_EQ(Cell(*decoded.batches[2], kId), "z");
  EXPECT_EQ(Payload(*decoded.batches[1], 0).size(), base64.size() / 4 * 3);
}

}  // namespace
}  // namespace sarissa::rollout
