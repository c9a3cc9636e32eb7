#include "rollout/record_filter.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rollout/equality_predicate.h"
#include "rollout/json_cursor.h"
#include "rollout/json_values.h"
#include "rollout/utf8.h"

namespace sarissa::rollout {
namespace {

constexpr std::array<std::string_view, 7> kTextKeys = {
    "rollout_id",    "problem_id", "policy_version", "role",
    "artifact_type", "dataset",    "content_type"};
constexpr std::string_view kBoolKey = "include_in_training";

Status BadFilters(std::string_view reason) {
  return Error(ErrorKind::kInvalid, "invalid filters: {}", reason);
}

Status ReadCondition(JsonCursor& cursor, const std::string& key,
                     std::vector<Condition>& conditions) {
  if (key == kBoolKey) {
    bool value = false;
    ARROW_RETURN_NOT_OK(ReadJsonBool(cursor, value));
    conditions.push_back(Condition{key, value});
    return Status::OK();
  }
  std::string scratch;
  std::string_view value;
  ARROW_RETURN_NOT_OK(ReadJsonText(cursor, scratch, value));
  if (!value.empty()) conditions.push_back(Condition{key, std::string(value)});
  return Status::OK();
}

Status ReadConditions(JsonCursor& cursor, std::vector<Condition>& conditions) {
  std::vector<std::string> keys;
  while (true) {
    std::string scratch;
    std::string_view text;
    if (!cursor.ReadString(text, scratch)) return BadFilters(cursor.error());
    const std::string key(text);
    if (std::find(kTextKeys.begin(), kTextKeys.end(), key) == kTextKeys.end() && key != kBoolKey) {
      return BadFilters(fmt::format("unknown key '{}'", key));
    }
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return BadFilters(fmt::format("duplicate key '{}'", key));
    }
    keys.push_back(key);
    if (!cursor.Take(':')) return BadFilters("expected ':' after a key");
    const Status status = ReadCondition(cursor, key, conditions);
    if (!status.ok()) return BadFilters(fmt::format("{}: {}", key, status.message()));
    if (cursor.Take('}')) return Status::OK();
    if (!cursor.Take(',')) return BadFilters("expected ',' or '}' in an object");
  }
}

}  // namespace

Result<std::shared_ptr<const engine::Predicate>> ParseFilters(std::string_view json) {
  if (!IsUtf8(json)) return BadFilters("not UTF-8");
  JsonCursor cursor(json, kMaxJsonDepth);
  std::vector<Condition> conditions;
  if (!cursor.Take('{')) return BadFilters("expected a JSON object");
  if (!cursor.Take('}')) ARROW_RETURN_NOT_OK(ReadConditions(cursor, conditions));
  if (!cursor.AtEnd()) return BadFilters("content after the object");
  if (conditions.empty()) return nullptr;
  return std::make_shared<EqualityPredicate>(std::move(conditions));
}

}  // namespace sarissa::rollout
