#include "rollout/record_decoder.h"

// The checks for running off the end of an unbalanced document are off in release builds unless asked for.
#define SIMDJSON_CHECK_EOF 1
#include <simdjson.h>

#include <bitset>
#include <cstddef>
#include <optional>
#include <utility>

#include "env/mapped_range.h"
#include "rollout/json_cursor.h"
#include "rollout/json_values.h"
#include "rollout/record_columns.h"
#include "rollout/record_fields.h"

namespace sarissa::rollout {
namespace {

namespace ondemand = simdjson::ondemand;

// Offsets of utf8 columns are 32 bits. No value is longer than its JSON text and defaults repeat text of the record, so a body
// below this cannot overflow them.
constexpr size_t kMaxBodyBytes = (size_t{1} << 31) - 1;
// A parser's memory grows with the largest document it has seen; only small ones stay with the thread.
constexpr size_t kKeptParserBytes = size_t{4} << 20;

Status NotJson(simdjson::error_code code) {
  return Error(ErrorKind::kInvalid, "invalid JSON: {}", simdjson::error_message(code));
}

// The exact characters of a value. It is not validated beyond its brackets.
Result<std::string_view> TextOf(ondemand::value& value) {
  std::string_view text;
  ondemand::object object;
  ondemand::array array;
  simdjson::error_code code = simdjson::SUCCESS;
  const std::string_view token = value.raw_json_token();
  if (token.empty()) return NotJson(simdjson::TAPE_ERROR);
  if (token.front() == '{') {
    code = value.get_object().get(object);
    if (code == simdjson::SUCCESS) code = object.raw_json().get(text);
  } else if (token.front() == '[') {
    code = value.get_array().get(array);
    if (code == simdjson::SUCCESS) code = array.raw_json().get(text);
  } else {
    text = token;
  }
  if (code != simdjson::SUCCESS) return NotJson(code);
  return text;
}

class AppendReader {
 public:
  AppendReader(std::string_view body, const PayloadParts& parts, const DecodeOptions& options,
               RecordColumns& columns)
      : body_(body), parts_(parts), options_(options), columns_(columns), fields_(columns) {}

  Status ReadDocument(ondemand::document& document);
  DecodedAppend TakeResult() { return std::move(result_); }

 private:
  Status ReadRecords(ondemand::value& value);
  Status ReadRecord(ondemand::object& record);
  Status ReadField(ondemand::field& field);
  Status FillAbsent();
  Status FillPayload();
  Status SkipUnknown(ondemand::value& value, int depth);
  Result<std::string_view> KeyOf(ondemand::field& field);
  Status Place(const Status& status, Column column) const;
  std::shared_ptr<arrow::Buffer> Part() const;

  std::string_view body_;  // the parser's copy, padded
  const PayloadParts& parts_;
  const DecodeOptions& options_;
  RecordColumns& columns_;
  RecordFieldReader fields_;
  DecodedAppend result_;
  std::string key_;
  uint64_t index_ = 0;
  std::bitset<kColumnCount> seen_;
  std::bitset<kColumnCount> filled_;
};

Status AppendReader::Place(const Status& status, Column column) const {
  if (status.ok()) return status;
  const std::string& name = RecordSchema()->field(column)->name();
  const bool element = status.message().starts_with('[');
  return Error(KindOf(status), "records[{}].{}{}{}", index_, name, element ? "" : ": ",
               status.message());
}

std::shared_ptr<arrow::Buffer> AppendReader::Part() const {
  const auto found = parts_.find(index_);
  return found == parts_.end() ? nullptr : found->second;
}

Result<std::string_view> AppendReader::KeyOf(ondemand::field& field) {
  const char* quote = field.key().raw() - 1;
  JsonCursor cursor(std::string_view(quote, static_cast<size_t>(body_.data() + body_.size() - quote)),
                    0);
  std::string_view key;
  if (!cursor.ReadString(key, key_)) return JsonError(cursor);
  return key;
}

Status AppendReader::SkipUnknown(ondemand::value& value, int depth) {
  ARROW_ASSIGN_OR_RAISE(const std::string_view text, TextOf(value));
  JsonCursor cursor(text, depth);
  if (cursor.SkipValue() && cursor.AtEnd()) return Status::OK();
  return JsonError(cursor);
}

Status AppendReader::ReadDocument(ondemand::document& document) {
  ondemand::object root;
  if (const auto code = document.get_object().get(root); code != simdjson::SUCCESS) {
    if (code != simdjson::INCORRECT_TYPE) return NotJson(code);
    return Error(ErrorKind::kInvalid, "the body must be a JSON object with the key 'records'");
  }
  bool found = false;
  for (auto next : root) {
    ondemand::field field;
    if (const auto code = std::move(next).get(field); code != simdjson::SUCCESS) return NotJson(code);
    ARROW_ASSIGN_OR_RAISE(const std::string_view key, KeyOf(field));
    if (key == "records") {
      if (std::exchange(found, true)) return Error(ErrorKind::kInvalid, "duplicate key 'records'");
      ARROW_RETURN_NOT_OK(ReadRecords(field.value()));
    } else {
      ARROW_RETURN_NOT_OK(SkipUnknown(field.value(), kMaxJsonDepth - 1));
    }
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    return Error(ErrorKind::kInvalid, "invalid JSON: content after the end of the document");
  }
  if (!found) return Error(ErrorKind::kInvalid, "missing key 'records'");
  if (index_ == 0) return Error(ErrorKind::kInvalid, "records must not be empty");
  if (!parts_.empty() && parts_.rbegin()->first >= index_) {
    return Error(ErrorKind::kInvalid, "part {} has no record: there are {} records",
                 parts_.rbegin()->first, index_);
  }
  return Status::OK();
}

Status AppendReader::ReadRecords(ondemand::value& value) {
  ondemand::array records;
  if (const auto code = value.get_array().get(records); code != simdjson::SUCCESS) {
    if (code != simdjson::INCORRECT_TYPE) return NotJson(code);
    return Error(ErrorKind::kInvalid, "records: expected an array");
  }
  for (auto next : records) {
    ondemand::value item;
    if (const auto code = std::move(next).get(item); code != simdjson::SUCCESS) return NotJson(code);
    ondemand::object record;
    if (const auto code = item.get_object().get(record); code != simdjson::SUCCESS) {
      if (code != simdjson::INCORRECT_TYPE) return NotJson(code);
      return Error(ErrorKind::kInvalid, "records[{}]: expected an object", index_);
    }
    ARROW_RETURN_NOT_OK(ReadRecord(record));
    ++index_;
  }
  return Status::OK();
}

Status AppendReader::ReadRecord(ondemand::object& record) {
  if (const auto part = Part(); part != nullptr && part->size() >= env::kMapThresholdBytes) {
    ARROW_RETURN_NOT_OK(columns_.Cut());
  }
  seen_.reset();
  filled_.reset();
  fields_.BeginRow();
  for (auto next : record) {
    ondemand::field field;
    if (const auto code = std::move(next).get(field); code != simdjson::SUCCESS) {
      return Annotate(NotJson(code), fmt::format("records[{}]", index_));
    }
    ARROW_RETURN_NOT_OK(ReadField(field));
  }
  ARROW_RETURN_NOT_OK(FillAbsent());
  const Status payload = FillPayload();
  if (!payload.ok()) return Place(payload, kPayloadSize);
  result_.ids.emplace_back(columns_.LastText(kId));
  return columns_.FinishRow();
}

Status AppendReader::ReadField(ondemand::field& field) {
  ARROW_ASSIGN_OR_RAISE(const std::string_view key, KeyOf(field));
  const std::optional<Column> column = FindColumn(key);
  if (!column.has_value()) {
    const Status status = SkipUnknown(field.value(), kMaxJsonDepth - 3);
    return status.ok() ? status
                       : Annotate(status, fmt::format("records[{}].{}", index_, key));
  }
  if (seen_[*column]) return Place(Error(ErrorKind::kInvalid, "duplicate key"), *column);
  seen_.set(*column);
  ARROW_ASSIGN_OR_RAISE(const std::string_view text, TextOf(field.value()));
  const Result<bool> filled = fields_.Read(*column, text);
  if (!filled.ok()) return Place(filled.status(), *column);
  filled_.set(*column, *filled);
  return Status::OK();
}

Status AppendReader::FillAbsent() {
  for (int i = 0; i < kColumnCount; ++i) {
    if (filled_[static_cast<size_t>(i)]) continue;
    const auto column = static_cast<Column>(i);
    switch (column) {
      case kId:
      case kRolloutId:
        return Place(Error(ErrorKind::kInvalid, "missing required field"), column);
      case kProblemId:
        ARROW_RETURN_NOT_OK(columns_.AppendText(kProblemId, columns_.LastText(kRolloutId)));
        break;
      case kSequenceOrder:
        ARROW_RETURN_NOT_OK(columns_.AppendInt32(kSequenceOrder, 0));
        break;
      case kRole: {
        const Status status = columns_.AppendRole("assistant");
        if (!status.ok()) return Place(status, kRole);
        break;
      }
      case kCreatedAt:
        ARROW_RETURN_NOT_OK(columns_.AppendTimestamp(options_.now.time_since_epoch().count()));
        break;
      case kContentType:
        ARROW_RETURN_NOT_OK(columns_.AppendText(kContentType, "text/plain"));
        break;
      case kRelationships:
        ARROW_RETURN_NOT_OK(columns_.BeginRelationships());
        break;
      case kBinaryPayload:
        break;
      default:
        ARROW_RETURN_NOT_OK(columns_.AppendNull(column));
    }
  }
  return Status::OK();
}

Status AppendReader::FillPayload() {
  const std::shared_ptr<arrow::Buffer> part = Part();
  std::optional<InlinePayload>& own = fields_.inline_payload();
  const std::optional<int64_t>& size = fields_.payload_size();
  if (options_.multipart && size.has_value()) {
    if (part != nullptr && part->size() != *size) {
      return Error(ErrorKind::kInvalid, "{} bytes declared, but part {} has {}", *size, index_,
                   part->size());
    }
    if (part == nullptr && !own.has_value()) {
      return Error(ErrorKind::kInvalid, "{} bytes declared, but the record has no payload", *size);
    }
  }
  if (part == nullptr && !own.has_value()) return columns_.AppendNull(kBinaryPayload);
  const std::shared_ptr<arrow::Buffer> whole = part != nullptr ? part : own->large;
  if (whole != nullptr && whole->size() >= env::kMapThresholdBytes) {
    result_.payload_bytes += static_cast<uint64_t>(whole->size());
    columns_.SetLargePayload(whole);
    return Status::OK();
  }
  const std::string_view bytes = whole != nullptr ? std::string_view(*whole) : own->small;
  result_.payload_bytes += bytes.size();
  return columns_.AppendPayload(bytes);
}

Result<DecodedAppend> DecodeWith(ondemand::parser& parser, std::string_view body,
                                 const PayloadParts& parts, const DecodeOptions& options) {
  const simdjson::padded_string padded(body);
  if (padded.data() == nullptr) return Status::OutOfMemory("no memory for a copy of the body");
  ondemand::document document;
  if (const auto code = parser.iterate(padded).get(document); code != simdjson::SUCCESS) {
    return NotJson(code);
  }
  RecordColumns columns;
  const std::string_view copy(padded.data(), padded.size());
  AppendReader reader(copy, parts, options, columns);
  ARROW_RETURN_NOT_OK(reader.ReadDocument(document));
  DecodedAppend result = reader.TakeResult();
  ARROW_ASSIGN_OR_RAISE(result.batches, columns.Finish());
  return result;
}

}  // namespace

Result<DecodedAppend> DecodeAppend(std::string_view body, const PayloadParts& parts,
                                   const DecodeOptions& options) {
  if (body.size() > kMaxBodyBytes) {
    return Error(ErrorKind::kInvalid, "the JSON is {} bytes; at most {} are accepted", body.size(),
                 kMaxBodyBytes);
  }
  if (body.size() > kKeptParserBytes) {
    ondemand::parser parser;
    return DecodeWith(parser, body, parts, options);
  }
  // One parser per thread: it only holds scratch memory, which is worth keeping from request to request.
  thread_local ondemand::parser parser;
  return DecodeWith(parser, body, parts, options);
}

}  // namespace sarissa::rollout
