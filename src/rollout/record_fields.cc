#include "rollout/record_fields.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "env/mapped_range.h"
#include "rollout/base64.h"
#include "rollout/json_canonical.h"
#include "rollout/json_values.h"
#include "rollout/timestamp.h"

namespace sarissa::rollout {
namespace {

constexpr size_t kLongestKey = 32;

// Columns by the length of their name: few share one, so a lookup compares once or twice.
using KeyTable = std::array<std::vector<std::pair<std::string, Column>>, kLongestKey>;

KeyTable MakeKeyTable() {
  KeyTable table;
  for (int i = 0; i < kColumnCount; ++i) {
    const std::string& name = RecordSchema()->field(i)->name();
    table[name.size()].emplace_back(name, static_cast<Column>(i));
  }
  return table;
}

// What null means for a field that is not simply nullable.
bool NullMeansDefault(Column column) {
  return column == kProblemId || column == kCreatedAt;
}

Status Malformed(JsonCursor& cursor, const char* reason) {
  cursor.Fail(reason);
  return JsonError(cursor);
}

}  // namespace

std::optional<Column> FindColumn(std::string_view key) {
  static const KeyTable table = MakeKeyTable();
  if (key.size() >= kLongestKey) return std::nullopt;
  for (const auto& [name, column] : table[key.size()]) {
    if (name == key) return column;
  }
  return std::nullopt;
}

void RecordFieldReader::BeginRow() {
  payload_size_.reset();
  inline_payload_.reset();
}

Result<bool> RecordFieldReader::Read(Column column, JsonCursor& cursor) {
  const bool nullable = RecordSchema()->field(column)->nullable() && column != kRelationships;
  if ((nullable || NullMeansDefault(column)) && cursor.TakeLiteral("null")) return false;
  ARROW_RETURN_NOT_OK(ReadValue(column, cursor));
  return true;
}

Status RecordFieldReader::ReadValue(Column column, JsonCursor& cursor) {
  switch (column) {
    case kSequenceOrder:
    case kNumInputTokens:
    case kNumOutputTokens: {
      int64_t value = 0;
      ARROW_RETURN_NOT_OK(ReadJsonInt(cursor, std::numeric_limits<int32_t>::min(),
                                      std::numeric_limits<int32_t>::max(), value));
      return columns_.AppendInt32(column, static_cast<int32_t>(value));
    }
    case kAdvantage:
    case kReward:
    case kRawReward:
    case kScore: {
      float value = 0;
      ARROW_RETURN_NOT_OK(ReadJsonFloat(cursor, value));
      return columns_.AppendFloat(column, value);
    }
    case kIncludeInTraining: {
      bool value = false;
      ARROW_RETURN_NOT_OK(ReadJsonBool(cursor, value));
      return columns_.AppendBool(column, value);
    }
    case kInputTokens:
    case kOutputTokens:
      ARROW_RETURN_NOT_OK(ReadJsonInts(cursor, int32_items_));
      return columns_.AppendList(column, std::span<const int32_t>(int32_items_));
    case kLossMask:
      ARROW_RETURN_NOT_OK(ReadJsonInts(cursor, int8_items_));
      return columns_.AppendList(column, std::span<const int8_t>(int8_items_));
    case kOutputLogprobs:
    case kInputLogprobs:
    case kRefLogprobs:
      ARROW_RETURN_NOT_OK(ReadJsonFloats(cursor, float_items_));
      return columns_.AppendList(column, std::span<const float>(float_items_));
    case kRelationships:
      return ReadRelationships(cursor);
    case kBinaryPayload:
      return ReadPayload(cursor);
    case kPayloadSize:
      return ReadPayloadSize(cursor);
    case kMetadata:
      return ReadMetadata(cursor);
    default:
      return ReadText(column, cursor);
  }
}

Status RecordFieldReader::ReadText(Column column, JsonCursor& cursor) {
  std::string_view text;
  ARROW_RETURN_NOT_OK(ReadJsonText(cursor, scratch_, text));
  if (column == kRole) return columns_.AppendRole(text);
  if (column != kCreatedAt) return columns_.AppendText(column, text);
  ARROW_ASSIGN_OR_RAISE(const int64_t micros, ParseTimestamp(text));
  return columns_.AppendTimestamp(micros);
}

Status RecordFieldReader::ReadMetadata(JsonCursor& cursor) {
  metadata_.clear();
  if (!AppendCanonicalJson(cursor, metadata_)) return JsonError(cursor);
  return columns_.AppendText(kMetadata, metadata_);
}

Status RecordFieldReader::ReadPayload(JsonCursor& cursor) {
  std::string_view text;
  ARROW_RETURN_NOT_OK(ReadJsonText(cursor, scratch_, text));
  ARROW_ASSIGN_OR_RAISE(const size_t size, Base64DecodedSize(text));
  InlinePayload payload;
  if (size >= static_cast<size_t>(env::kMapThresholdBytes)) {
    ARROW_ASSIGN_OR_RAISE(payload.large, arrow::AllocateBuffer(static_cast<int64_t>(size)));
    ARROW_RETURN_NOT_OK(DecodeBase64(text, payload.large->mutable_data()));
  } else {
    payload.small.resize(size);
    ARROW_RETURN_NOT_OK(DecodeBase64(text, reinterpret_cast<uint8_t*>(payload.small.data())));
  }
  inline_payload_ = std::move(payload);
  return Status::OK();
}

Status RecordFieldReader::ReadPayloadSize(JsonCursor& cursor) {
  int64_t size = 0;
  ARROW_RETURN_NOT_OK(ReadJsonInt(cursor, std::numeric_limits<int64_t>::min(),
                                  std::numeric_limits<int64_t>::max(), size));
  payload_size_ = size;
  return columns_.AppendInt64(kPayloadSize, size);
}

Status RecordFieldReader::ReadRelationships(JsonCursor& cursor) {
  if (!cursor.Take('[')) return UnexpectedJson(cursor, "an array");
  if (!cursor.Enter()) return JsonError(cursor);
  ARROW_RETURN_NOT_OK(columns_.BeginRelationships());
  if (!cursor.Take(']')) {
    for (int64_t index = 0;; ++index) {
      const Status status = ReadRelationship(cursor);
      if (!status.ok()) return Error(KindOf(status), "[{}]: {}", index, status.message());
      if (cursor.Take(']')) break;
      if (!cursor.Take(',')) return Malformed(cursor, "expected ',' or ']' in an array");
    }
  }
  cursor.Leave();
  return Status::OK();
}

Status RecordFieldReader::ReadRelationship(JsonCursor& cursor) {
  if (!cursor.Take('{')) return UnexpectedJson(cursor, "an object");
  if (!cursor.Enter()) return JsonError(cursor);
  constexpr std::array<std::string_view, 3> kKeys = {"target_id", "relation", "weight"};
  std::array<bool, 3> seen = {};
  std::optional<float> weight;
  bool more = !cursor.Take('}');
  while (more) {
    std::string_view key;
    std::string_view value;
    if (cursor.Peek() != '"') return Malformed(cursor, "expected a key in an object");
    if (!cursor.ReadString(key, scratch_)) return JsonError(cursor);
    const auto which =
        static_cast<size_t>(std::find(kKeys.begin(), kKeys.end(), key) - kKeys.begin());
    if (!cursor.Take(':')) return Malformed(cursor, "expected ':' after a key");
    if (which < kKeys.size() && std::exchange(seen[which], true)) {
      return Error(ErrorKind::kInvalid, "duplicate key '{}'", kKeys[which]);
    }
    Status status;
    if (which == 0 || which == 1) {
      status = ReadJsonText(cursor, scratch_, value);
      (which == 0 ? target_id_ : relation_).assign(value);
    } else if (which == 2) {
      if (!cursor.TakeLiteral("null")) status = ReadJsonFloat(cursor, weight.emplace());
    } else if (!cursor.SkipValue()) {
      return JsonError(cursor);
    }
    if (!status.ok()) return Annotate(status, kKeys[which]);
    more = !cursor.Take('}');
    if (more && !cursor.Take(',')) return Malformed(cursor, "expected ',' or '}' in an object");
  }
  for (size_t i = 0; i < 2; ++i) {
    if (!seen[i]) return Error(ErrorKind::kInvalid, "missing '{}'", kKeys[i]);
  }
  cursor.Leave();
  return columns_.AppendRelationship(target_id_, relation_, weight);
}

}  // namespace sarissa::rollout
