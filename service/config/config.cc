#include "service/config/config.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "base/host_port.h"
#include "base/status.h"
#include "service/config/config_file.h"
#include "service/config/devices.h"
#include "service/config/listen_address.h"
#include "service/config/setting_kinds.h"

namespace sparseagg {
namespace {

Setting LimitSetting(std::string_view name, std::string_view unit, std::string_view help,
                     Range range, uint64_t& (*field)(ServerConfig&)) {
  return NumberSetting<uint64_t>(name, unit, help, range, field, true);
}

std::string AddressOrNoneError(std::string_view value) {
  return value == "none" ? "" : HostAndPortError(value);
}

std::vector<Setting> HttpSettings() {
  return {
      AddressSetting(TextSetting("http-listen",
                                 "Address of the HTTP edge, for clients without gRPC (JSON, "
                                 "Connect, gRPC-Web): HOST:PORT, or none. It has the certificates "
                                 "and the credentials of the gRPC port",
                                 SPARSEAGG_FIELD(std::string, http_listen), false),
                     "HOST:PORT or none", &AddressOrNoneError),
      TextSetting("http-port-file", "File to which the server writes the port of the HTTP edge",
                  SPARSEAGG_FIELD(std::string, http_port_file), true),
      AddressSetting(
          TextSetting("http-origins",
                      "Origins whose web pages may use the HTTP edge, between commas "
                      "(https://app.example.org,http://localhost:8000); * for all, empty for none",
                      SPARSEAGG_FIELD(std::string, http_origins), true),
          "origins between commas, *, or empty", &OriginsError),
      NumberSetting<uint64_t>("http-connections-max", "count",
                              "Open connections of the HTTP edge; at most half of the file "
                              "descriptors that the process may have",
                              {1, 1'000'000}, SPARSEAGG_FIELD(uint64_t, http_connections_max)),
      NumberSetting<uint64_t>("http-bytes-max", "bytes",
                              "Memory of all requests that the HTTP edge is receiving and of all "
                              "answers that it is sending",
                              {uint64_t{1} << 20, uint64_t{1} << 50},
                              SPARSEAGG_FIELD(uint64_t, http_bytes_max)),
  };
}

Setting LogLevelSetting() {
  Setting setting{
      "log-level", "",      "Lowest level of events to log: debug, info, warning or error",
      false,       nullptr, nullptr};
  setting.parse = [](std::string_view value, ServerConfig& config) {
    const std::optional<LogLevel> level = ParseLogLevel(value);
    if (!level) return InvalidSetting("must be debug, info, warning or error");
    config.log_level = *level;
    return absl::OkStatus();
  };
  setting.print = [](const ServerConfig& config) {
    return std::string(LogLevelName(config.log_level));
  };
  return setting;
}

std::vector<Setting> SecuritySettings() {
  return {
      TextSetting("tls-cert",
                  "File with the server's certificate and its intermediate certificates (PEM); "
                  "read again when it changes",
                  SPARSEAGG_FIELD(std::string, tls.certificate), true),
      TextSetting("tls-key", "File with the certificate's private key (PEM)",
                  SPARSEAGG_FIELD(std::string, tls.key), true),
      TextSetting(
          "tls-client-ca",
          "File with the CA that signs client certificates (PEM); empty: the server requests none",
          SPARSEAGG_FIELD(std::string, tls.client_authority), true),
      SwitchSetting("tls-client-cert-required",
                    "Whether every client must present a certificate; only with tls-client-ca",
                    SPARSEAGG_FIELD(bool, tls.client_certificate_required)),
      SwitchSetting("allow-plaintext",
                    "Allow serving without TLS on an address that other machines can reach",
                    SPARSEAGG_FIELD(bool, allow_plaintext)),
      TextSetting("credentials",
                  "File of the callers' tokens and client certificates; read again when it "
                  "changes. If it and jwt-keys are empty, everyone may do everything",
                  SPARSEAGG_FIELD(std::string, credentials), true),
      TextSetting("jwt-keys",
                  "File with the public keys that verify JSON Web Tokens (JWKS, or one PEM public "
                  "key); read again when it changes",
                  SPARSEAGG_FIELD(std::string, jwt_keys), true),
      TextSetting("jwt-issuer", "Required value of the claim iss of a JSON Web Token",
                  SPARSEAGG_FIELD(std::string, jwt_rules.issuer), true),
      TextSetting("jwt-audience",
                  "Value that the claim aud of a JSON Web Token must equal or contain",
                  SPARSEAGG_FIELD(std::string, jwt_rules.audience), true),
      TextSetting("jwt-tenant-claim", "Claim of a JSON Web Token with the caller's tenant",
                  SPARSEAGG_FIELD(std::string, jwt_rules.tenant_claim), false),
      TextSetting("jwt-principal-claim", "Claim of a JSON Web Token with the caller's name",
                  SPARSEAGG_FIELD(std::string, jwt_rules.principal_claim), false),
      TextSetting("jwt-roles-claim", "Claim of a JSON Web Token with the caller's roles",
                  SPARSEAGG_FIELD(std::string, jwt_rules.roles_claim), false),
      TextSetting("audit-log",
                  "File of the audit log: a line for each change of a round, refused call and "
                  "reload of credentials; see `sparseagg audit verify`. Empty: no audit log",
                  SPARSEAGG_FIELD(std::string, audit_log), true),
  };
}

std::vector<Setting> ServingSettings() {
  return {
      AddressSetting(
          TextSetting("listen",
                      "Address to serve on: HOST:PORT (port 0: any free one) or unix:PATH",
                      SPARSEAGG_FIELD(std::string, listen), false),
          "HOST:PORT or unix:PATH", &ListenAddressError),
      TextSetting("backend",
                  "Back end for all rounds: auto (the first that is available), or a name that "
                  "`sparseagg info` lists",
                  SPARSEAGG_FIELD(std::string, backend), false),
      NumberSetting<uint32_t>(
          "threads", "count",
          "Threads of the back end; 0: the number of CPUs of the machine or container", {0, 4096},
          SPARSEAGG_FIELD(uint32_t, threads)),
      NumberSetting<uint64_t>("backend-memory-bytes", "bytes",
                              "Memory that the back end may use, on each of its devices; 0: the "
                              "back end decides",
                              {}, SPARSEAGG_FIELD(uint64_t, backend_memory_bytes)),
      AddressSetting(TextSetting("devices",
                                 "GPUs that the server uses: a count (the first ones), all, or "
                                 "numbers between commas (0,2,3)",
                                 SPARSEAGG_FIELD(std::string, devices), false),
                     "a count, all, or numbers between commas", &DevicesError),
      NumberSetting<uint64_t>("free-memory-keep-ms", "ms",
                              "How long freed memory is kept for the next round before it is "
                              "returned to the system (at most twice this time); 0: for ever",
                              {0, 86'400'000}, SPARSEAGG_FIELD(uint64_t, free_memory_keep_ms)),
      SwitchSetting("exit-on-gpu-loss",
                    "End the process when the GPU fails, so that an orchestrator restarts it; "
                    "otherwise rounds continue on the CPU",
                    SPARSEAGG_FIELD(bool, exit_on_gpu_loss)),
      LogLevelSetting(),
      NumberSetting<uint64_t>("drain-delay-ms", "ms",
                              "How long a stopping server keeps answering, with refusals and "
                              "NOT_SERVING, so that clients and load balancers notice",
                              {0, 3'600'000}, SPARSEAGG_FIELD(uint64_t, drain_delay_ms)),
      NumberSetting<uint64_t>("drain-timeout-ms", "ms",
                              "How long a stopping server waits for calls and publications in "
                              "progress; then the process ends in every case",
                              {0, 3'600'000}, SPARSEAGG_FIELD(uint64_t, drain_timeout_ms)),
      SwitchSetting("stop-at-eof",
                    "Stop when standard input ends, as at SIGTERM: a server whose input is a pipe "
                    "ends with the process that holds the other end",
                    SPARSEAGG_FIELD(bool, stop_at_eof)),
      NumberSetting<uint64_t>(
          "self-probe-interval-ms", "ms",
          "How often the server connects to itself; after three failures in a row it ends with "
          "code 71, so that its supervisor restarts it; 0: never",
          {0, 3'600'000}, SPARSEAGG_FIELD(uint64_t, self_probe_interval_ms)),
      ShareSetting("verify-share",
                   "Share of the durable rounds, 0 to 1, that the reference back end computes "
                   "again before they are published; a round whose results differ fails",
                   SPARSEAGG_FIELD(double, verify_share)),
      TextSetting("port-file", "File to which the server writes its port, for use with port 0",
                  SPARSEAGG_FIELD(std::string, port_file), true),
      AddressSetting(TextSetting("admin-listen",
                                 "Address of the admin port (HTTP: status page, metrics, health): "
                                 "HOST:PORT, or none. It has no authentication",
                                 SPARSEAGG_FIELD(std::string, admin_listen), false),
                     "HOST:PORT or none", &AddressOrNoneError),
      TextSetting("admin-port-file", "File to which the server writes its admin port",
                  SPARSEAGG_FIELD(std::string, admin_port_file), true),
      AddressSetting(
          TextSetting("leaves",
                      "Servers that receive the updates of this server's rounds, between commas: "
                      "HOST:PORT or ID=HOST:PORT (docs/trees.md); empty: none",
                      SPARSEAGG_FIELD(std::string, leaves), true),
          "HOST:PORT or ID=HOST:PORT, between commas", &LeavesError),
      AddressSetting(
          TextSetting("peers",
                      "All leaves of the tree that this server is a leaf of, as in the root's "
                      "leaves: it may own rows of results then (docs/trees.md); empty: it may not",
                      SPARSEAGG_FIELD(std::string, peers), true),
          "HOST:PORT or ID=HOST:PORT, between commas", &LeavesError),
      TextSetting("leaves-token-file",
                  "File with the token that this server shows to its leaves, or peers",
                  SPARSEAGG_FIELD(std::string, leaves_token_file), true),
      TextSetting("leaves-authority",
                  "File with the CA of the certificates of leaves or peers; empty: plaintext",
                  SPARSEAGG_FIELD(std::string, leaves_authority), true),
      TextSetting("data-dir",
                  "Directory for durable rounds, which are then the default; empty: rounds are "
                  "kept in memory only",
                  SPARSEAGG_FIELD(std::string, data_dir), true),
  };
}

std::vector<Setting> LimitSettings() {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  constexpr uint64_t kLongestMs = uint64_t{1} << 40;  // in ms: 34 years
  return {
      LimitSetting(
          "result-retention-ms", "ms",
          "How long a result can be fetched before its round is deleted; 0: until DeleteRound",
          {0, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, limits.result_retention_ms)),
      LimitSetting("round-open-ms-max", "ms",
                   "How long a round may be open: the longest deadline, and that of rounds without "
                   "one; 0: no limit",
                   {0, uint64_t{1} << 38}, SPARSEAGG_FIELD(uint64_t, limits.round_open_ms_max)),
      LimitSetting("retry-horizon-ms", "ms",
                   "How long the name of a deleted round is remembered, so that late retries get a "
                   "clear error and the name is not reused; 0: not at all",
                   {0, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, limits.retry_horizon_ms)),
      LimitSetting("store-free-bytes-min", "bytes",
                   "Free disk space of the data directory that is reserved for sealing and "
                   "publishing; with less, durable rounds and updates are refused",
                   {0, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, limits.store_free_bytes_min)),
      // The upper bound is that of gRPC, which uses an int.
      LimitSetting("message-bytes-max", "bytes", "Size of one gRPC message",
                   {64 << 10, 2047 * kMiB}, SPARSEAGG_FIELD(uint64_t, limits.message_bytes_max)),
      LimitSetting("update-bytes-max", "bytes", "Payload of one update", {1, uint64_t{1} << 50},
                   SPARSEAGG_FIELD(uint64_t, limits.update_bytes_max)),
      LimitSetting("update-nnz-max", "count", "Entries of one tensor of one update",
                   {1, uint64_t{1} << 48}, SPARSEAGG_FIELD(uint64_t, limits.update_nnz_max)),
      LimitSetting("staging-bytes-max", "bytes",
                   "Updates of all rounds that are received and not yet folded in",
                   {kMiB, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, limits.staging_bytes_max)),
      LimitSetting("aggregation-bytes-max", "bytes",
                   "Memory of all rounds: accumulators, waiting entries and results; 0: the memory "
                   "of the back end, with a GPU at most half of the host's",
                   {0, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, limits.aggregation_bytes_max)),
      LimitSetting("round-tensors-max", "count", "Tensors of one round", {1, kRoundTensorsMax},
                   SPARSEAGG_FIELD(uint64_t, limits.round_tensors_max)),
      LimitSetting("rounds-max", "count", "Rounds that exist at the same time, in any state",
                   {1, 10'000'000}, SPARSEAGG_FIELD(uint64_t, limits.rounds_max)),
      LimitSetting("tenant-rounds-max", "count",
                   "Rounds of one tenant that exist at the same time; 0: no limit but rounds-max",
                   {0, 10'000'000}, SPARSEAGG_FIELD(uint64_t, limits.tenant_rounds_max)),
      LimitSetting("tenant-bytes-max", "bytes",
                   "Memory of one tenant: its updates in progress and its rounds; 0: no limit but "
                   "those of the server",
                   {0, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, limits.tenant_bytes_max)),
      LimitSetting("tenant-streams-max", "count",
                   "StreamUpdates calls of one tenant in progress; 0: no limit", {0, 10'000'000},
                   SPARSEAGG_FIELD(uint64_t, limits.tenant_streams_max)),
      LimitSetting("tenant-uploads-max", "count",
                   "Unfinished chunked updates of one tenant; 0: no limit but open-uploads-max",
                   {0, 10'000'000}, SPARSEAGG_FIELD(uint64_t, limits.tenant_uploads_max)),
      LimitSetting(
          "tenant-waits-max", "count",
          "WaitRound, WatchRound and WaitTasks calls of one tenant in progress; 0: no limit",
          {0, 10'000'000}, SPARSEAGG_FIELD(uint64_t, limits.tenant_waits_max)),
      LimitSetting("tenant-tasks-max", "count",
                   "Tasks of one tenant that exist at the same time; 0: no limit but tasks-max",
                   {0, 100'000'000}, SPARSEAGG_FIELD(uint64_t, task_limits.tenant_tasks_max)),
      LimitSetting("tasks-max", "count", "Tasks that exist at the same time", {1, 100'000'000},
                   SPARSEAGG_FIELD(uint64_t, task_limits.tasks_max)),
      LimitSetting("task-bytes-max", "bytes",
                   "Payloads, names and texts of all tasks, and 2 KiB for each group",
                   {1, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, task_limits.task_bytes_max)),
      LimitSetting(
          "task-polls-per-second", "count",
          "Wanted calls in a second of one tenant's workers that find no task; 0: no limit",
          {0, 1'000'000}, SPARSEAGG_FIELD(uint64_t, task_limits.task_polls_per_second)),
      LimitSetting("result-nnz-max", "count",
                   "Entries of one tensor of one result; a round that exceeds it is aborted",
                   {1, uint64_t{1} << 48}, SPARSEAGG_FIELD(uint64_t, limits.result_nnz_max)),
      LimitSetting("open-uploads-max", "count", "Unfinished chunked updates", {1, 10'000'000},
                   SPARSEAGG_FIELD(uint64_t, limits.open_uploads_max)),
      LimitSetting("upload-disk-bytes-max", "bytes",
                   "Disk space for unfinished chunked updates of durable rounds",
                   {1, uint64_t{1} << 50}, SPARSEAGG_FIELD(uint64_t, limits.upload_disk_bytes_max)),
      LimitSetting("upload-idle-ms", "ms",
                   "How long an unfinished chunked update is kept without a new chunk, also after "
                   "its stream has ended",
                   {1, kLongestMs}, SPARSEAGG_FIELD(uint64_t, limits.upload_idle_ms)),
      LimitSetting("upload-rate-min", "bytes/s",
                   "Lowest rate of a chunked update, averaged over upload-rate-window-ms of "
                   "waiting for it; 0: no limit",
                   {0, uint64_t{1} << 40}, SPARSEAGG_FIELD(uint64_t, limits.upload_rate_min)),
      LimitSetting("upload-rate-window-ms", "ms", "Window of upload-rate-min", {1, kLongestMs},
                   SPARSEAGG_FIELD(uint64_t, limits.upload_rate_window_ms)),
      LimitSetting("stream-idle-ms", "ms",
                   "How long a stream may be without a message, or an answer unread; 0: no limit",
                   {0, kLongestMs}, SPARSEAGG_FIELD(uint64_t, limits.stream_idle_ms)),
      LimitSetting("dense-result-bytes-max", "bytes",
                   "Size of one dense answer of GetAggregate or Reduce", {0, uint64_t{1} << 60},
                   SPARSEAGG_FIELD(uint64_t, limits.dense_result_bytes_max)),
  };
}

#undef SPARSEAGG_FIELD

std::vector<Setting> MakeSettings() {
  std::vector<Setting> settings = ServingSettings();
  for (const auto& more : {HttpSettings(), LimitSettings(), SecuritySettings()}) {
    settings.insert(settings.end(), more.begin(), more.end());
  }
  return settings;
}

// Applies `value` to the setting called `key`; `where` names its source.
absl::Status Apply(std::string_view key, std::string_view value, const std::string& where,
                   LoadedConfig& loaded) {
  const std::span<const Setting> settings = Settings();
  for (size_t i = 0; i < settings.size(); ++i) {
    if (settings[i].name != key) continue;
    if (const absl::Status status = settings[i].parse(value, loaded.config); !status.ok()) {
      return InvalidSetting(absl::StrCat(where, ": ", std::string(key), " is \"",
                                         std::string(value), "\" and ", status.message()));
    }
    loaded.sources[i] = where;
    return absl::OkStatus();
  }
  return InvalidSetting(absl::StrCat(where, ": unknown key \"", std::string(key),
                                     "\"; `sparseagg serve --help` lists them"));
}

// Kubernetes and Docker define such variables for a service called sparseagg.
bool IsOfOrchestrator(std::string_view variable) {
  constexpr size_t kNone = std::string_view::npos;
  const size_t port = variable.find("_PORT_");
  return variable.find("_SERVICE_") != kNone || variable.ends_with("_PORT") ||
         (port != kNone && absl::ascii_isdigit(variable[port + 6]));
}

absl::Status ApplyFile(const std::string& path, LoadedConfig& loaded) {
  SPARSEAGG_ASSIGN_OR_RETURN(const std::vector<ConfigLine> lines, ReadConfigFile(path));
  std::set<std::string_view> seen;
  for (const ConfigLine& line : lines) {
    const std::string where = absl::StrCat(path, ":", line.line);
    if (!seen.insert(line.key).second) {
      return InvalidSetting(
          absl::StrCat(where, ": ", line.key, " is set twice; remove one of the lines"));
    }
    SPARSEAGG_RETURN_IF_ERROR(Apply(line.key, line.value, where, loaded));
  }
  return absl::OkStatus();
}

// The variables with the prefix of settings that are not settings.
std::vector<std::string> UnknownVariables(std::span<const std::string> variables) {
  std::vector<std::string> unknown;
  for (const std::string& name : variables) {
    const auto is_name = [&](const Setting& setting) {
      return EnvironmentName(setting.name) == name;
    };
    if (!name.starts_with("SPARSEAGG_") || IsOfOrchestrator(name)) continue;
    if (std::none_of(Settings().begin(), Settings().end(), is_name)) unknown.push_back(name);
  }
  return unknown;
}

}  // namespace

Limits DefaultLimits() {
  Limits limits;
  limits.staging_bytes_max = std::min(limits.staging_bytes_max, AvailableMemoryBytes() / 4);
  return limits;
}

std::span<const Setting> Settings() {
  static const std::vector<Setting>& settings = *new std::vector<Setting>(MakeSettings());
  return settings;
}

std::string EnvironmentName(std::string_view setting) {
  std::string name = absl::AsciiStrToUpper(absl::StrCat("sparseagg_", std::string(setting)));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

absl::StatusOr<LoadedConfig> LoadConfig(const ConfigSources& sources) {
  LoadedConfig loaded;
  loaded.sources.assign(Settings().size(), "default");
  loaded.unknown_variables = UnknownVariables(sources.variables);
  if (!sources.file.empty()) SPARSEAGG_RETURN_IF_ERROR(ApplyFile(sources.file, loaded));
  for (const Setting& setting : Settings()) {
    const std::string variable = EnvironmentName(setting.name);
    if (const auto value = sources.environment(variable)) {
      SPARSEAGG_RETURN_IF_ERROR(
          Apply(setting.name, *value, absl::StrCat("environment ", variable), loaded));
    }
  }
  for (const auto& [name, value] : sources.flags) {
    SPARSEAGG_RETURN_IF_ERROR(Apply(name, value, absl::StrCat("flag --", name), loaded));
  }
  return loaded;
}

std::string PrintConfig(const LoadedConfig& loaded) {
  std::string text;
  for (size_t i = 0; i < Settings().size(); ++i) {
    const Setting& setting = Settings()[i];
    absl::StrAppend(&text, std::string(setting.name), " = ", setting.print(loaded.config), "  # ",
                    loaded.sources[i],
                    setting.unit.empty() ? "" : absl::StrCat("; ", std::string(setting.unit)),
                    "\n");
  }
  return text;
}

}  // namespace sparseagg
