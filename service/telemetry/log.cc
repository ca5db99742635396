#include "service/telemetry/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sparseagg {
namespace {

struct LevelRow {
  LogLevel level;
  std::string_view name;
  spdlog::level::level_enum spdlog_level;
};

constexpr std::array<LevelRow, 4> kLevels = {{
    {LogLevel::kDebug, "debug", spdlog::level::debug},
    {LogLevel::kInfo, "info", spdlog::level::info},
    {LogLevel::kWarning, "warning", spdlog::level::warn},
    {LogLevel::kError, "error", spdlog::level::err},
}};

const LevelRow& RowOf(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

bool IsBare(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("._:/@+-").find(c) != std::string::npos;
}

void AppendValue(std::string_view value, std::string& line) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), IsBare)) {
    line.append(value);
    return;
  }
  line.push_back('"');
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      line.push_back('\\');
      line.push_back(c);
    } else if (c == '\n') {
      line.append("\\n");
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(&line, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      line.push_back(c);
    }
  }
  line.push_back('"');
}

}  // namespace

std::string_view LogLevelName(LogLevel level) { return RowOf(level).name; }

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (const LevelRow& row : kLevels) {
    if (row.name == name) return row.level;
  }
  return std::nullopt;
}

std::string FormatEvent(std::string_view event, std::initializer_list<LogField> fields) {
  std::string line = "event=";
  AppendValue(event, line);
  for (const LogField& field : fields) {
    line.append(" ").append(field.key).append("=");
    AppendValue(field.value, line);
  }
  return line;
}

Log::Log(LogLevel level)
    : logger_(std::make_shared<spdlog::logger>("sparseagg",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
  logger_->set_pattern("time=%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
  logger_->set_level(RowOf(level).spdlog_level);
  logger_->flush_on(spdlog::level::debug);
}

void Log::ChangeLevel(std::string_view event, LogLevel level) const {
  logger_->set_level(spdlog::level::info);
  Info(event, {{"log_level", std::string(LogLevelName(level))}});
  logger_->set_level(RowOf(level).spdlog_level);
}

LogLevel Log::level() const {
  for (const LevelRow& row : kLevels) {
    if (row.spdlog_level == logger_->level()) return row.level;
  }
  return LogLevel::kInfo;
}

void Log::Debug(std::string_view event, std::initializer_list<LogField> fields) const {
  if (logger_->should_log(spdlog::level::debug)) logger_->debug("{}", FormatEvent(event, fields));
}
void Log::Info(std::string_view event, std::initializer_list<LogField> fields) const {
  if (logger_->should_log(spdlog::level::info)) logger_->info("{}", FormatEvent(event, fields));
}
void Log::Warning(std::string_view event, std::initializer_list<LogField> fields) const {
  logger_->warn("{}", FormatEvent(event, fields));
}
void Log::Error(std::string_view event, std::initializer_list<LogField> fields) const {
  logger_->error("{}", FormatEvent(event, fields));
}

}  // namespace sparseagg
