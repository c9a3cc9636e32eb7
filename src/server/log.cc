#include "server/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <iterator>
#include <memory>

#include "rollout/json_escape.h"

namespace sarissa::server {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>("sarissa",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern(R"({"ts":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})",
                      spdlog::pattern_time_type::utc);
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

}  // namespace

LogLevel ParseLogLevel(std::string_view text) {
  if (text == "debug" || text == "trace") return LogLevel::kDebug;
  if (text == "warn" || text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return LogLevel::kInfo;
}

void SetLogLevel(LogLevel level) {
  Logger().set_level(SpdlogLevel(level));
}

LogLine::LogLine(LogLevel level, std::string_view event)
    : level_(level), wanted_(Logger().should_log(SpdlogLevel(level))) {
  if (!wanted_) return;
  fields_ = R"("event":)";
  rollout::AppendJsonString(event, fields_);
}

LogLine::~LogLine() {
  if (wanted_) Logger().log(SpdlogLevel(level_), spdlog::string_view_t(fields_));
}

LogLine& LogLine::With(std::string_view key, std::string_view value) {
  if (!wanted_) return *this;
  fields_ += ',';
  rollout::AppendJsonString(key, fields_);
  fields_ += ':';
  rollout::AppendJsonString(value, fields_);
  return *this;
}

LogLine& LogLine::With(std::string_view key, int64_t value) {
  if (!wanted_) return *this;
  fields_ += ',';
  rollout::AppendJsonString(key, fields_);
  fmt::format_to(std::back_inserter(fields_), ":{}", value);
  return *this;
}

LogLine& LogLine::WithSeconds(std::string_view key, double value) {
  if (!wanted_) return *this;
  fields_ += ',';
  rollout::AppendJsonString(key, fields_);
  fmt::format_to(std::back_inserter(fields_), ":{:.6f}", value);
  return *this;
}

void EventLines::Write(Level level, std::string_view event, const Fields& fields) {
  const LogLevel line_level = level == Level::kInfo      ? LogLevel::kInfo
                              : level == Level::kWarning ? LogLevel::kWarning
                                                         : LogLevel::kError;
  LogLine line(line_level, event);
  for (const auto& [key, value] : fields) line.With(key, value);
}

}  // namespace sarissa::server
