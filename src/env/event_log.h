// Where the rooms below server/ tell an operator what happened; server/ writes it to the log.
// Thread safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sarissa::env {

class EventLog {
 public:
  enum class Level { kInfo, kWarning, kError };
  using Fields = std::vector<std::pair<std::string_view, std::string>>;

  virtual ~EventLog() = default;
  // `event` is a short name in lower case with underscores.
  virtual void Write(Level level, std::string_view event, const Fields& fields) = 0;
};

}  // namespace sarissa::env
