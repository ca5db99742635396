// The server's log: one line per event on standard error, in logfmt (`time=... level=info
// event="..." key=value`). It never has a payload.
#ifndef SPARSEAGG_SERVICE_TELEMETRY_LOG_H_
#define SPARSEAGG_SERVICE_TELEMETRY_LOG_H_

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace sparseagg {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning", "error".
std::string_view LogLevelName(LogLevel level);
std::optional<LogLevel> ParseLogLevel(std::string_view name);

struct LogField {
  std::string_view key;  // a word
  std::string value;     // any text; quoted where necessary
};

// Thread-safe.
class Log {
 public:
  explicit Log(LogLevel level);

  // Changes the level of all copies of this log, and logs `event`, whatever the levels are.
  void ChangeLevel(std::string_view event, LogLevel level) const;
  LogLevel level() const;

  void Debug(std::string_view event, std::initializer_list<LogField> fields = {}) const;
  void Info(std::string_view event, std::initializer_list<LogField> fields = {}) const;
  void Warning(std::string_view event, std::initializer_list<LogField> fields = {}) const;
  void Error(std::string_view event, std::initializer_list<LogField> fields = {}) const;

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

// The part of a line after its level: `event="round created" name=rounds/a`. Values with anything
// but [A-Za-z0-9._:/@+-] are quoted, with \" \\ \n and other control characters escaped: a line
// stays a line.
std::string FormatEvent(std::string_view event, std::initializer_list<LogField> fields);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TELEMETRY_LOG_H_
