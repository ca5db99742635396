// The configuration of the server. One table (Settings(), in config.cc) makes the flag
// --message-bytes-max, the environment variable SPARSEAGG_MESSAGE_BYTES_MAX, the key
// message-bytes-max of the configuration file, the help text, and, for limits, the line of
// GetServerInfo. Flag beats environment beats file beats default.
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
#include "service/telemetry/log.h"

namespace sparseagg {

// Those of Limits, with no more for staging than a quarter of the memory of this machine, or of the
// container that this is.
Limits DefaultLimits();

struct ServerConfig {
  std::string listen = "127.0.0.1:50061";
  std::string backend = "auto";
  uint32_t threads = 0;
  uint64_t backend_memory_bytes = 0;
  uint64_t free_memory_keep_ms = 10'000;  // 0: for good
  bool exit_on_gpu_loss = false;
  LogLevel log_level = LogLevel::kInfo;
  uint64_t drain_delay_ms = 200;
  uint64_t drain_timeout_ms = 30'000;
  uint64_t self_probe_interval_ms = 10'000;  // 0: off
  double verify_share = 0;
  std::string port_file;
  std::string admin_listen = "127.0.0.1:50062";  // or "none"
  std::string admin_port_file;
  std::string data_dir;  // empty: rounds live in memory only
  TlsFiles tls;
  bool allow_plaintext = false;
  std::string credentials;  // file; empty, as jwt_keys: nobody is asked who they are
  std::string jwt_keys;     // file
  JwtRules jwt_rules;
  std::string audit_log;  // file; empty: none
  Limits limits = DefaultLimits();
};

struct Setting {
  std::string_view name;  // "message-bytes-max"
  std::string_view unit;  // "bytes", "ms", "count"; empty for words
  std::string_view help;
  bool is_limit;  // shown by GetServerInfo
  // INVALID_ARGUMENT says what is allowed instead; the caller adds where the value came from.
  std::function<absl::Status(std::string_view value, ServerConfig& config)> parse;
  std::function<std::string(const ServerConfig& config)> print;
};

std::span<const Setting> Settings();

// "message-bytes-max" -> "SPARSEAGG_MESSAGE_BYTES_MAX".
std::string EnvironmentName(std::string_view setting);

struct ConfigSources {
  std::map<std::string, std::string, std::less<>> flags;  // by setting name; those that were given
  std::function<std::optional<std::string>(const std::string& name)> environment;
  std::string file;  // path; empty: none
  // All that the environment has, but for what others of our commands read.
  std::vector<std::string> variables;
};

struct LoadedConfig {
  ServerConfig config;
  std::vector<std::string>
      sources;  // of each setting, in the order of Settings(): "default", "flag --listen", ...
  std::vector<std::string> unknown_variables;  // perhaps settings with a wrong name
};

// INVALID_ARGUMENT (INVALID_CONFIG), NOT_FOUND (CONFIG_FILE_UNREADABLE): one line that names the
// source (file and line, variable or flag), the key and what is allowed.
absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources);

// The effective configuration as a configuration file, each line with its source as a comment.
std::string PrintConfig(const LoadedConfig& loaded);

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_CONFIG_CONFIG_H_
