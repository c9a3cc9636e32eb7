#include "rollout/record_decoder.h"

#include <bitset>
#include <cstddef>
#include <optional>
#include <utility>

#include "env/mapped_range.h"
#include "rollout/json_cursor.h"
#include "rollout/json_values.h"
#include "rollout/record_columns.h"
#include "rollout/record_defaults.h"
#include "rollout/record_fields.h"
#include "rollout/utf8.h"

namespace sarissa::rollout {
namespace {

// Offsets of utf8 columns are 32 bits. No value is longer than its JSON text and defaults repeat
// text of the record, so a body below this cannot overflow them.
constexpr size_t kMaxBodyBytes = (size_t{1} << 31) - 1;
class AppendReader {
 public:
  AppendReader(std::string_view body, const PayloadParts& parts, const DecodeOptions& options)
      : cursor_(body, kMaxJsonDepth),
        begin_(body.data()),
        parts_(parts),
        options_(options),
        fields_(columns_) {}

  Status ReadDocument();
  Result<DecodedAppend> Finish();

 private:
  // Calls `read_member` with every key of the object that comes next; it takes the value.
  template <typename ReadMember>
  Status ReadObject(ReadMember read_member);
  Status ReadRecords();
  Status ReadRecord();
  Status ReadField(std::string_view key);
  Status FillAbsent();
  Status FillPayload();
  Status SkipUnknown();
  Status Malformed(const char* reason);
  // Names the record, or the record and the field, and the place in the body.
  Status AtRecord(const Status& status) const;
  Status AtField(const Status& status, Column column) const;
  std::shared_ptr<arrow::Buffer> Part() const;

  JsonCursor cursor_;
  const char* begin_;
  const PayloadParts& parts_;
  const DecodeOptions& options_;
  RecordColumns columns_;
  RecordFieldReader fields_;
  DecodedAppend result_;
  std::string key_;
  uint64_t index_ = 0;
  std::bitset<kColumnCount> seen_;
  std::bitset<kColumnCount> filled_;
};

Status AppendReader::AtRecord(const Status& status) const {
  return Error(KindOf(status), "records[{}]: {} (byte {} of the JSON)", index_, status.message(),
               cursor_.position() - begin_);
}

Status AppendReader::AtField(const Status& status, Column column) const {
  const std::string& name = RecordSchema()->field(column)->name();
  const bool element = status.message().starts_with('[');
  return Error(KindOf(status), "records[{}].{}{}{}", index_, name, element ? "" : ": ",
               status.message());
}

std::shared_ptr<arrow::Buffer> AppendReader::Part() const {
  const auto found = parts_.find(index_);
  return found == parts_.end() ? nullptr : found->second;
}

Status AppendReader::Malformed(const char* reason) {
  cursor_.Fail(reason);
  return JsonError(cursor_);
}

Status AppendReader::SkipUnknown() {
  return cursor_.SkipValue() ? Status::OK() : JsonError(cursor_);
}

template <typename ReadMember>
Status AppendReader::ReadObject(ReadMember read_member) {
  cursor_.Take('{');
  if (!cursor_.Enter()) return JsonError(cursor_);
  if (!cursor_.Take('}')) {
    while (true) {
      std::string_view key;
      if (cursor_.Peek() != '"') return Malformed("expected a key in an object");
      if (!cursor_.ReadString(key, key_)) return JsonError(cursor_);
      if (!cursor_.Take(':')) return Malformed("expected ':' after a key");
      ARROW_RETURN_NOT_OK(read_member(key));
      if (cursor_.Take('}')) break;
      if (!cursor_.Take(',')) return Malformed("expected ',' or '}' in an object");
    }
  }
  cursor_.Leave();
  return Status::OK();
}

Status AppendReader::ReadDocument() {
  if (cursor_.Peek() != '{') {
    return Error(ErrorKind::kInvalid, "the body must be a JSON object with the key 'records'");
  }
  bool found = false;
  ARROW_RETURN_NOT_OK(ReadObject([this, &found](std::string_view key) {
    if (key != "records") return SkipUnknown();
    if (std::exchange(found, true)) return Error(ErrorKind::kInvalid, "duplicate key 'records'");
    return ReadRecords();
  }));
  if (!cursor_.AtEnd()) return Malformed("invalid JSON: content after the end of the document");
  if (!found) return Error(ErrorKind::kInvalid, "missing key 'records'");
  if (index_ == 0) return Error(ErrorKind::kInvalid, "records must not be empty");
  if (!parts_.empty() && parts_.rbegin()->first >= index_) {
    return Error(ErrorKind::kInvalid, "part {} has no record: there are {} records",
                 parts_.rbegin()->first, index_);
  }
  return Status::OK();
}

Status AppendReader::ReadRecords() {
  if (!cursor_.Take('[')) return Annotate(UnexpectedJson(cursor_, "an array"), "records");
  if (!cursor_.Enter()) return JsonError(cursor_);
  if (!cursor_.Take(']')) {
    while (true) {
      ARROW_RETURN_NOT_OK(ReadRecord());
      ++index_;
      if (cursor_.Take(']')) break;
      if (!cursor_.Take(',')) return Malformed("records: expected ',' or ']'");
    }
  }
  cursor_.Leave();
  return Status::OK();
}

Status AppendReader::ReadRecord() {
  if (cursor_.Peek() != '{') return AtRecord(UnexpectedJson(cursor_, "an object"));
  if (const auto part = Part(); part != nullptr && part->size() >= env::kMapThresholdBytes) {
    ARROW_RETURN_NOT_OK(columns_.Cut());
  }
  seen_.reset();
  filled_.reset();
  fields_.BeginRow();
  Status placed;
  const Status status = ReadObject([this, &placed](std::string_view key) {
    placed = ReadField(key);
    return placed;
  });
  if (!placed.ok()) return placed;
  if (!status.ok()) return AtRecord(status);
  ARROW_RETURN_NOT_OK(FillAbsent());
  const Status payload = FillPayload();
  if (!payload.ok()) return AtField(payload, kPayloadSize);
  result_.ids.emplace_back(columns_.LastText(kId));
  return columns_.FinishRow();
}

Status AppendReader::ReadField(std::string_view key) {
  const std::optional<Column> column = FindColumn(key);
  if (!column.has_value()) {
    const Status status = SkipUnknown();
    return status.ok() ? status : AtRecord(status);
  }
  if (seen_[*column]) return AtField(Error(ErrorKind::kInvalid, "duplicate key"), *column);
  seen_.set(*column);
  const Result<bool> filled = fields_.Read(*column, cursor_);
  if (!filled.ok()) return AtField(filled.status(), *column);
  filled_.set(*column, *filled);
  return Status::OK();
}

Status AppendReader::FillAbsent() {
  for (int i = 0; i < kColumnCount; ++i) {
    const auto column = static_cast<Column>(i);
    if (filled_[static_cast<size_t>(i)] || column == kBinaryPayload) continue;
    const Status status = AppendDefault(columns_, column, options_.now);
    if (!status.ok()) return AtField(status, column);
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

Result<DecodedAppend> AppendReader::Finish() {
  ARROW_ASSIGN_OR_RAISE(result_.batches, columns_.Finish());
  return std::move(result_);
}

}  // namespace

Result<DecodedAppend> DecodeAppend(std::string_view body, const PayloadParts& parts,
                                   const DecodeOptions& options) {
  if (body.size() > kMaxBodyBytes) {
    return Error(ErrorKind::kInvalid, "the JSON is {} bytes; at most {} are accepted", body.size(),
                 kMaxBodyBytes);
  }
  if (!IsUtf8(body)) return Error(ErrorKind::kInvalid, "invalid JSON: the body is not UTF-8");
  AppendReader reader(body, parts, options);
  ARROW_RETURN_NOT_OK(reader.ReadDocument());
  return reader.Finish();
}

}  // namespace sarissa::rollout
