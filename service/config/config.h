// The configuration of the server. One row of a table (Settings(), in config.cc) defines the flag
// --message-bytes-max, the environment variable SPARSEAGG_MESSAGE_BYTES_MAX, the key
// message-bytes-max of the configuration file, the help text, and, for limits, the line of
// GetServerInfo. A flag overrides the environment, which overrides the file, which overrides the
// default.
#ifndef SPARSEAGG_SERVICE_CONFIG_CONFIG_H_
#define SPARSEAGG_SERVICE_CONFIG_CONFIG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/auth/jwt.h"
#include "service/auth/tls_files.h"
#include "service/engine/limits.h"
#include "service/tasks/task_limits.h"
#include "service/telemetry/log.h"

namespace sparseagg {

// The defaults of Limits, except that staging gets at most a quarter of the memory of the machine
// or container.
Limits DefaultLimits();

struct ServerConfig {
  std::string listen = "127.0.0.1:50061";
  std::string backend = "auto";
  uint32_t threads = 0;
  uint64_t backend_memory_bytes = 0;
  std::string devices = "1";              // as ParseDevices() reads it
  uint64_t free_memory_keep_ms = 10'000;  // 0: for ever
  bool exit_on_gpu_loss = false;
  LogLevel log_level = LogLevel::kInfo;
  uint64_t drain_delay_ms = 200;
  uint64_t drain_timeout_ms = 30'000;
  bool stop_at_eof = false;
  uint64_t self_probe_interval_ms = 10'000;  // 0: off
  double verify_share = 0;
  std::string port_file;
  std::string admin_listen = "127.0.0.1:50062";  // or "none"
  std::string admin_port_file;
  std::string http_listen = "none";  // or HOST:PORT
  std::string http_port_file;
  std::string http_origins;  // between commas, or "*"
  uint64_t http_connections_max = 16'384;
  uint64_t http_bytes_max = uint64_t{256} << 20;
  std::string leaves;  // between commas: HOST:PORT or ID=HOST:PORT
  std::string peers;   // the same
  std::string leaves_token_file;
  std::string leaves_authority;  // file; empty: plaintext
  std::string data_dir;          // empty: rounds live in memory only
  TlsFiles tls;
  bool allow_plaintext = false;
  std::string credentials;  // file; if it and jwt_keys are empty, there is no authentication
  std::string jwt_keys;     // file
  JwtRules jwt_rules;
  std::string audit_log;  // file; empty: none
  Limits limits = DefaultLimits();
  TaskLimits task_limits;
};

struct Setting {
  std::string_view name;  // "message-bytes-max"
  std::string_view unit;  // "bytes", "ms", "count"; empty for text
  std::string_view help;
  bool is_limit;  // shown by GetServerInfo
  // INVALID_ARGUMENT says what is allowed; the caller adds where the value came from.
  std::function<absl::Status(std::string_view value, ServerConfig& config)> parse;
  std::function<std::string(const ServerConfig& config)> print;
};

std::span<const Setting> Settings();

// "message-bytes-max" -> "SPARSEAGG_MESSAGE_BYTES_MAX".
std::string EnvironmentName(std::string_view setting);

struct ConfigSources {
  std::map<std::string, std::string, std::less<>>
      flags;  // the flags that were given, by setting name
  std::function<std::optional<std::string>(const std::string& name)> environment;
  std::string file;  // path; empty: none
  // The names of all environment variables, except those that only other commands read.
  std::vector<std::string> variables;
};

struct LoadedConfig {
  ServerConfig config;
  std::vector<std::string>
      sources;  // of each setting, in the order of Settings(): "default", "flag --listen", ...
  std::vector<std::string> unknown_variables;  // they may be misspelt settings
};

// INVALID_ARGUMENT (INVALID_CONFIG), NOT_FOUND (CONFIG_FILE_UNREADABLE): one line that names the
// source (file and line, variable or flag), the key and what is allowed.
absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources);

// The effective configuration as a configuration file, each line with its source as a comment.
std::string PrintConfig(const LoadedConfig& loaded);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_CONFIG_H_
