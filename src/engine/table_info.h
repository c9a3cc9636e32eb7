// What the registry knows of a table, and pages of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sarissa::engine {

struct TableInfo {
  std::string name;
  std::string uri;
  int64_t created_at_ms = 0;
};

struct ListRequest {
  std::string prefix = {};       // only names that begin with it
  std::string start_after = {};  // only names greater than this one (byte order)
  uint64_t limit = 0;            // 0 = all
};

struct TablePage {
  std::vector<TableInfo> tables;  // ascending by name
  bool more = false;              // there are further ones after the last
};

}  // namespace sarissa::engine
