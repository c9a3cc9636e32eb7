#include "rollout/json_canonical.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "rollout/json_escape.h"
#include "rollout/utf8.h"

namespace sarissa::rollout {
namespace {

// Text that another writer stored may be nested deeper than what is accepted here.
constexpr int kStoredDepth = 256;

struct Member {
  std::string key;
  size_t begin;
  size_t end;
};

void AppendMembers(std::vector<Member>& members, std::string_view values, std::string& out) {
  // Equal keys stay in the order of the text.
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return a.key != b.key ? a.key < b.key : a.begin < b.begin;
  });
  bool first = true;
  out.push_back('{');
  for (size_t i = 0; i < members.size(); ++i) {
    if (i + 1 < members.size() && members[i + 1].key == members[i].key) continue;
    if (!first) out.push_back(',');
    first = false;
    AppendJsonString(members[i].key, out);
    out.push_back(':');
    out.append(values.substr(members[i].begin, members[i].end - members[i].begin));
  }
  out.push_back('}');
}

bool AppendObject(JsonCursor& cursor, std::string& out) {
  cursor.Take('{');
  if (!cursor.Enter()) return false;
  std::vector<Member> members;
  std::string values;
  std::string scratch;
  if (!cursor.Take('}')) {
    while (true) {
      std::string_view key;
      if (cursor.Peek() != '"') return cursor.Fail("expected a key in an object");
      if (!cursor.ReadString(key, scratch)) return false;
      std::string owned(key);
      if (!cursor.Take(':')) return cursor.Fail("expected ':' after a key");
      const size_t begin = values.size();
      if (!AppendCanonicalJson(cursor, values)) return false;
      members.push_back(Member{std::move(owned), begin, values.size()});
      if (cursor.Take('}')) break;
      if (!cursor.Take(',')) return cursor.Fail("expected ',' or '}' in an object");
    }
  }
  cursor.Leave();
  AppendMembers(members, values, out);
  return true;
}

bool AppendArray(JsonCursor& cursor, std::string& out) {
  cursor.Take('[');
  if (!cursor.Enter()) return false;
  out.push_back('[');
  if (!cursor.Take(']')) {
    while (true) {
      if (!AppendCanonicalJson(cursor, out)) return false;
      if (cursor.Take(']')) break;
      if (!cursor.Take(',')) return cursor.Fail("expected ',' or ']' in an array");
      out.push_back(',');
    }
  }
  cursor.Leave();
  out.push_back(']');
  return true;
}

}  // namespace

bool AppendCanonicalJson(JsonCursor& cursor, std::string& out) {
  switch (cursor.Peek()) {
    case '{':
      return AppendObject(cursor, out);
    case '[':
      return AppendArray(cursor, out);
    case '"': {
      std::string scratch;
      std::string_view text;
      if (!cursor.ReadString(text, scratch)) return false;
      AppendJsonString(text, out);
      return true;
    }
    default: {
      // Literals and numbers: the exact characters.
      const char* start = cursor.position();
      if (!cursor.SkipValue()) return false;
      out.append(start, static_cast<size_t>(cursor.position() - start));
      return true;
    }
  }
}

bool IsJson(std::string_view text) {
  if (!IsUtf8(text)) return false;
  JsonCursor cursor(text, kStoredDepth);
  return cursor.SkipValue() && cursor.AtEnd();
}

}  // namespace sarissa::rollout
