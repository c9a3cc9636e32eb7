// Log lines: one JSON object a line on standard error, one line an event.
//
//   LogLine(LogLevel::kInfo, "started").With("address", address).With("port", port);
//
// Thread safe. Written when the line dies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "env/event_log.h"

namespace sarissa::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// From "debug", "info", "warn", "error", "off" (also "trace" and "warning"); anything else is
// kInfo.
LogLevel ParseLogLevel(std::string_view text);

// Lines below `level` are dropped. Called once, by main().
void SetLogLevel(LogLevel level);

class LogLine {
 public:
  LogLine(LogLevel level, std::string_view event);
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  ~LogLine();

  LogLine& With(std::string_view key, std::string_view value);
  LogLine& With(std::string_view key, int64_t value);
  LogLine& WithSeconds(std::string_view key, double value);

 private:
  const LogLevel level_;
  const bool wanted_;
  std::string fields_;
};

// What the rooms below tell, as log lines.
class EventLines final : public env::EventLog {
 public:
  void Write(Level level, std::string_view event, const Fields& fields) override;
};

}  // namespace sarissa::server
