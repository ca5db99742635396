#include "service/serve.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cgroup_limits.h"
#include "base/status.h"
#include "service/admin/admin_server.h"
#include "service/admin/event_log.h"
#include "service/admin/observers.h"
#include "service/allocator.h"
#include "service/config/listen_address.h"
#include "service/engine/engine.h"
#include "service/gpu_loss.h"
#include "service/http/http_edge.h"
#include "service/idle_memory.h"
#include "service/rpc/grpc_server.h"
#include "service/rpc/self_probe.h"
#include "service/rpc/ticker.h"
#include "service/server_info.h"
#include "service/server_security.h"
#include "service/server_tasks.h"
#include "service/stop_deadline.h"
#include "service/stop_signals.h"
#include "service/store/durable_store.h"
#include "service/store/store.h"
#include "service/tree/start_tree.h"

namespace sparseagg {
namespace {

// Each connection takes a file descriptor, and after running out of them gRPC may never accept a
// connection again. The default limit of many systems is 1024.
void RaiseFileLimit(const Log& log) {
  constexpr rlim_t kFilesWanted = 65536;
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const rlimit raised = {files.rlim_max, files.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  if (files.rlim_cur < kFilesWanted) {
    log.Warning("the limit of open files is low; raise the hard limit (ulimit -Hn, LimitNOFILE)",
                {{"files", absl::StrCat(files.rlim_cur)}, {"wanted", absl::StrCat(kFilesWanted)}});
  }
}

// Writes the file under another name and renames it, so that a reader never sees half of it.
absl::Status WritePortFile(const std::string& path, int port, const char* flag) {
  if (path.empty()) return absl::OkStatus();
  const std::string unfinished = path + ".tmp";
  std::ofstream file(unfinished, std::ios::trunc);
  file << port << "\n";
  file.close();
  if (!file || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    return MakeError(absl::StatusCode::kPermissionDenied, "PORT_FILE_UNWRITABLE",
                     absl::StrCat("cannot write the port to ", path, "; check ", flag));
  }
  return absl::OkStatus();
}

void WarnOfUnknownVariables(std::span<const std::string> names, const Log& log) {
  for (const std::string& name : names) {
    log.Warning("an environment variable is not a setting and has no effect", {{"name", name}});
  }
}

void WarnOfExposure(const ServerConfig& config, bool authenticates, const Log& log) {
  for (const std::string& listen : {config.listen, config.http_listen}) {
    if (listen == "none" || IsLocalAddress(listen)) continue;
    if (!config.tls.enabled()) {
      log.Warning("other machines can connect without encryption", {{"listen", listen}});
    }
    if (!authenticates) {
      log.Warning("everyone who can connect may do everything; see docs/security.md",
                  {{"listen", listen}});
    }
  }
  if (config.http_listen == "none" || authenticates || config.http_origins.empty()) return;
  log.Warning("pages of these origins may do everything; see docs/http.md",
              {{"http_origins", config.http_origins}});
}

// The observers of the server.
struct Telemetry {
  explicit Telemetry(const Log& log)
      : events(std::make_shared<EventLog>(log)),
        engine(std::make_shared<EngineObservers>(
            std::vector<std::shared_ptr<EngineObserver>>{metrics, refusals, events})),
        calls(std::make_shared<CallObservers>(
            std::vector<std::shared_ptr<CallObserver>>{metrics, events})) {}

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  std::shared_ptr<Refusals> refusals =
      std::make_shared<Refusals>([] { return std::chrono::system_clock::now(); });
  std::shared_ptr<EventLog> events;
  std::shared_ptr<EngineObserver> engine;
  std::shared_ptr<CallObserver> calls;
};

// Logs each back end that was preferred to the chosen one and is not available.
void LogUnavailable(const BackendChoice& choice, const Log& log) {
  for (const BackendCandidate& candidate : choice.candidates) {
    if (candidate.status.ok()) return;
    log.Info("back end not available",
             {{"backend", candidate.name}, {"message", std::string(candidate.status.message())}});
  }
}

void LogNotes(const BackendInfo& backend, const Log& log) {
  for (const std::string& note : backend.notes) {
    log.Info("back end", {{"backend", backend.name}, {"message", note}});
  }
}

// A process that exceeds its container's limit is killed; its allocations do not fail.
void WarnOfMemory(uint64_t aggregation, uint64_t staging, const Log& log) {
  const uint64_t available = AvailableMemoryBytes();
  if (aggregation <= available && staging <= available - aggregation) return;
  log.Warning(
      "the limits allow more memory than is available; lower aggregation-bytes-max or "
      "staging-bytes-max",
      {{"aggregation_bytes_max",
        aggregation == std::numeric_limits<uint64_t>::max() ? "none" : absl::StrCat(aggregation)},
       {"staging_bytes_max", absl::StrCat(staging)},
       {"available_bytes", absl::StrCat(available)}});
}

struct Server {
  size_t rounds = 0;  // recovered from the data directory
  std::shared_ptr<GpuLoss> gpu_loss;
  BackendChoice backend;
  std::unique_ptr<Protection> protection;
  std::unique_ptr<UpdateStore> store;
  TaskRowStore* task_rows = nullptr;  // of the store; null: in memory
  std::shared_ptr<Tasks> tasks;       // observes the engine
  std::unique_ptr<Engine> inner;
  std::unique_ptr<TreeEngine> engine;  // inner with the rounds of leaves
  std::unique_ptr<AdminServer> admin;  // reads the engine's state
  std::unique_ptr<GrpcServer> grpc;    // is destroyed before what it uses
  std::unique_ptr<HttpEdge> http;      // last: calls grpc
};

std::vector<ConfigRow> ConfigRows(const LoadedConfig& loaded) {
  std::vector<ConfigRow> rows;
  for (size_t i = 0; i < Settings().size(); ++i) {
    const Setting& setting = Settings()[i];
    rows.push_back({.name = std::string(setting.name),
                    .value = setting.print(loaded.config),
                    .source = loaded.sources[i],
                    .unit = std::string(setting.unit),
                    .help = std::string(setting.help)});
  }
  return rows;
}

absl::StatusOr<std::unique_ptr<AdminServer>> StartAdmin(const LoadedConfig& loaded,
                                                        const Telemetry& telemetry,
                                                        const Log& log) {
  const ServerConfig& config = loaded.config;
  if (config.admin_listen == "none") return nullptr;
  SPARSEAGG_ASSIGN_OR_RETURN(std::unique_ptr<AdminServer> admin,
                             AdminServer::Start({.listen = config.admin_listen,
                                                 .version = SPARSEAGG_VERSION,
                                                 .data_dir = config.data_dir,
                                                 .config = ConfigRows(loaded),
                                                 .metrics = telemetry.metrics,
                                                 .refusals = telemetry.refusals,
                                                 .log = log,
                                                 .stop = [] { kill(getpid(), SIGTERM); }}));
  SPARSEAGG_RETURN_IF_ERROR(
      WritePortFile(config.admin_port_file, admin->port(), "--admin-port-file"));
  return admin;
}

absl::StatusOr<std::unique_ptr<HttpEdge>> StartHttp(const ServerConfig& config,
                                                    Authenticator* authenticator,
                                                    const std::shared_ptr<Metrics>& metrics,
                                                    GrpcServer& grpc) {
  if (config.http_listen == "none") return nullptr;
  const auto on_connections = [metrics](size_t open) { metrics->OnHttpConnections(open); };
  SPARSEAGG_ASSIGN_OR_RETURN(std::unique_ptr<HttpEdge> http,
                             HttpEdge::Start({.listen = config.http_listen,
                                              .tls = config.tls,
                                              .origins = config.http_origins,
                                              .connections_max = config.http_connections_max,
                                              .bytes_max = config.http_bytes_max,
                                              .limits = config.limits,
                                              .authenticator = authenticator,
                                              .on_connections = on_connections},
                                             grpc.NewLocalCalls()));
  SPARSEAGG_RETURN_IF_ERROR(WritePortFile(config.http_port_file, http->port(), "--http-port-file"));
  return http;
}

absl::Status OpenStore(const ServerConfig& config, const std::shared_ptr<Metrics>& metrics,
                       Server& server) {
  if (config.data_dir.empty()) {
    server.store = MakeMemoryStore();
    return absl::OkStatus();
  }
  SPARSEAGG_ASSIGN_OR_RETURN(
      std::unique_ptr<DurableStore> store,
      OpenDurableStore({.directory = config.data_dir,
                        .free_bytes_min = config.limits.store_free_bytes_min,
                        .on_commit = [metrics](size_t updates, double seconds) {
                          metrics->OnCommit(updates, seconds);
                        }}));
  server.task_rows = store.get();
  server.store = std::move(store);
  return absl::OkStatus();
}

// The admin port starts early, so that it reports "starting" while a large data directory is
// recovered.
absl::StatusOr<Server> StartServer(const LoadedConfig& loaded, const Log& log,
                                   std::span<const BackendFactory> backends) {
  const ServerConfig& config = loaded.config;
  WarnOfUnknownVariables(loaded.unknown_variables, log);
  const Telemetry telemetry(log);
  Server server;
  SPARSEAGG_ASSIGN_OR_RETURN(server.protection, Protection::Make(config, log));
  SPARSEAGG_ASSIGN_OR_RETURN(server.admin, StartAdmin(loaded, telemetry, log));
  server.gpu_loss = std::make_shared<GpuLoss>(log, config.exit_on_gpu_loss ? kServeGpuLost : 0);
  const auto on_loss = [loss = server.gpu_loss,
                        metrics = telemetry.metrics](const absl::Status& fault) {
    metrics->OnBackendLost();
    loss->Report(fault);
  };
  SPARSEAGG_ASSIGN_OR_RETURN(server.backend, ChooseBackend(backends, config, on_loss));
  if (config.backend == "auto") LogUnavailable(server.backend, log);
  LogNotes(server.backend.backend->info(), log);
  SPARSEAGG_RETURN_IF_ERROR(OpenStore(config, telemetry.metrics, server));
  server.tasks = MakeTasks(config, *server.protection, log, *server.store, server.task_rows);
  EngineOptions engine_options;
  engine_options.limits = config.limits;
  engine_options.tenant_limits = [protection = server.protection.get()](std::string_view tenant) {
    return protection->LimitsOf(tenant);
  };
  engine_options.observer =
      std::make_shared<EngineObservers>(std::vector<std::shared_ptr<EngineObserver>>{
          telemetry.engine, server.protection->observer(), server.tasks});
  engine_options.verify_share = config.verify_share;
  if (server.store->Supports(Durability::kDurable)) {
    engine_options.default_durability = Durability::kDurable;
  }
  v1::ServerInfo info =
      MakeServerInfo(server.backend, config, *server.store, engine_options.default_durability);
  server.inner = MakeEngine(std::move(engine_options), *server.backend.backend, *server.store);
  WarnOfMemory(server.inner->Stats().aggregation_bytes_max, config.limits.staging_bytes_max, log);
  SPARSEAGG_RETURN_IF_ERROR(server.inner->Recover());
  SPARSEAGG_RETURN_IF_ERROR(RecoverTasks(*server.tasks, *server.inner, log));
  SPARSEAGG_ASSIGN_OR_RETURN(
      server.engine, StartTree(config, *server.inner, *server.store, server.task_rows, log));
  const auto rounds = server.engine->ListRounds("", std::numeric_limits<size_t>::max());
  for (const RoundSnapshot& round : rounds) server.protection->RecordRecovered(round);
  server.rounds = rounds.size();
  SPARSEAGG_ASSIGN_OR_RETURN(
      server.grpc, GrpcServer::Start(config.listen, *server.engine, std::move(info),
                                     server.protection->ForEdge(config.tls, log), telemetry.calls,
                                     server.tasks.get()));
  SPARSEAGG_ASSIGN_OR_RETURN(server.http, StartHttp(config, server.protection->authenticator(),
                                                    telemetry.metrics, *server.grpc));
  SPARSEAGG_RETURN_IF_ERROR(WritePortFile(config.port_file, server.grpc->port(), "--port-file"));
  server.gpu_loss->Attach(
      server.grpc.get());  // last, so that no error return leaves the two attached
  return server;
}

void AnnounceServing(const Server& server, const ServerConfig& config, const Log& log) {
  const std::string listen = BoundAddress(config.listen, server.grpc->port());
  std::string admin = "none";
  if (server.admin != nullptr) {
    server.admin->SetServing(*server.engine, listen, server.tasks.get());
    admin = BoundAddress(config.admin_listen, server.admin->port());
  }
  const std::string http =
      server.http == nullptr ? "none" : BoundAddress(config.http_listen, server.http->port());
  const BackendInfo& backend = server.backend.backend->info();
  log.Info("serving", {{"listen", listen},
                       {"admin", admin},
                       {"http", http},
                       {"version", SPARSEAGG_VERSION},
                       {"backend", backend.name},
                       {"device", backend.description},
                       {"devices", absl::StrCat(backend.devices.size())},
                       {"data_dir", config.data_dir.empty() ? "none" : config.data_dir},
                       {"rounds", absl::StrCat(server.rounds)}});
  server.protection->Record(
      "server_started", {{"version", SPARSEAGG_VERSION}, {"rounds", absl::StrCat(server.rounds)}});
  WarnOfExposure(config, server.protection->authenticator() != nullptr, log);
}

// Applies the settings that can change while the server runs; others need a restart.
void ApplyLogLevel(const absl::StatusOr<LoadedConfig>& loaded, const Log& log) {
  if (!loaded.ok()) {
    log.Error("configuration not reloaded", {{"message", std::string(loaded.status().message())}});
    return;
  }
  log.ChangeLevel("configuration reloaded", loaded->config.log_level);
}

// The part of the drain timeout in which calls that are cut off get their error, and the process
// ends.
std::chrono::milliseconds TimeToEnd(std::chrono::milliseconds drain_timeout) {
  return std::min<std::chrono::milliseconds>(drain_timeout / 4, std::chrono::milliseconds(500));
}

// Returns true if nothing was cut off.
bool StopServer(Server& server, const ServerConfig& config) {
  const std::chrono::milliseconds timeout(config.drain_timeout_ms);
  const auto time_to_work = timeout - TimeToEnd(timeout);
  const auto deadline = std::chrono::system_clock::now() + time_to_work;
  if (server.admin != nullptr) server.admin->SetStopping();
  server.store->StopErasing();
  server.grpc->Drain();
  const bool done = server.engine->Drain(std::chrono::steady_clock::now() + time_to_work);
  // gRPC cancels a call that arrives after Shutdown() has begun. Until then it gets
  // SERVER_DRAINING.
  const auto delay_end =
      std::chrono::system_clock::now() + std::chrono::milliseconds(config.drain_delay_ms);
  std::this_thread::sleep_until(std::min(delay_end, deadline));
  server.gpu_loss->Attach(nullptr);
  if (server.http != nullptr) server.http->Stop(deadline);
  server.grpc->Stop(deadline);
  return done;
}

// The least time for an orderly end, however short the drain timeout is.
constexpr std::chrono::seconds kStopTimeMin{1};

// Returns null if it is turned off.
std::unique_ptr<SelfProbe> StartSelfProbe(const ServerConfig& config, int port, const Log& log) {
  if (config.self_probe_interval_ms == 0) return nullptr;
  const std::chrono::milliseconds interval(config.self_probe_interval_ms);
  // At least 10 s, because a busy server may be slow to answer.
  const auto timeout = std::max<std::chrono::milliseconds>(interval, std::chrono::seconds(10));
  const std::string address = AddressToDial(config.listen, port);
  return std::make_unique<SelfProbe>(
      interval, [address, timeout] { return Probe(address, timeout); },
      SelfProbeEvents{.first_answer =
                          [&log, address] {
                            log.Debug("self-probe answered", {{"address", address}});
                          },
                      .no_descriptors =
                          [&log] {
                            log.Warning(
                                "no file descriptors are left; new connections fail until others "
                                "are closed; raise the limit (ulimit -Hn, LimitNOFILE)");
                          },
                      .unreachable =
                          [&log, address](int tries) {
                            log.Error(
                                "the server no longer accepts connections; the process ends and "
                                "must be restarted",
                                {{"address", address}, {"tries", absl::StrCat(tries)}});
                            _exit(kServeUnreachable);
                          }});
}

// Ends the server within a second when its data directory is deleted, even if it is idle, so that a
// readiness probe notices. Null without a data directory.
std::unique_ptr<Ticker> WatchStore(const ServerConfig& config, const UpdateStore& store) {
  if (config.data_dir.empty()) return nullptr;
  return std::make_unique<Ticker>(std::chrono::seconds(1), [&store] { store.CheckStillPresent(); });
}

// Returns null if freed memory is kept for ever.
std::unique_ptr<Ticker> GiveBackIdleMemory(const ServerConfig& config) {
  KeepFreedMemory();
  if (config.free_memory_keep_ms == 0) return nullptr;
  // Short beside the period, so that a short round between two samples is not missed.
  constexpr std::chrono::milliseconds kSampleInterval{100};
  const uint64_t samples =
      std::max<uint64_t>(1, config.free_memory_keep_ms / kSampleInterval.count());
  return std::make_unique<Ticker>(kSampleInterval, [idle = IdleMemory(samples)]() mutable {
    GiveBackFreedMemory(idle.Sample(FreedMemoryBytes()));
  });
}

}  // namespace

int Serve(const LoadedConfig& loaded, const ReloadConfig& reload,
          std::span<const BackendFactory> backends) {
  const ServerConfig& config = loaded.config;
  BlockStopSignals();
  if (config.stop_at_eof) StopAtEndOfInput(STDIN_FILENO);
  const Log log(config.log_level);
  RaiseFileLimit(log);
  const std::unique_ptr<Ticker> idle_memory = GiveBackIdleMemory(config);

  std::once_flag stop_recorded;
  std::optional<StopDeadline>
      stop_deadline;  // before the server, because it also bounds the server's destruction
  absl::StatusOr<Server> server = StartServer(loaded, log, backends);
  if (!server.ok()) {
    log.Error("cannot serve", {{"reason", ErrorReason(server.status())},
                               {"message", std::string(server.status().message())}});
    return kServeFailed;
  }
  AnnounceServing(*server, config, log);
  const std::unique_ptr<Ticker> watch_store = WatchStore(config, *server->store);
  auto self_probe = StartSelfProbe(config, server->grpc->port(), log);

  const int signal_number = WaitForStopSignal([&] { ApplyLogLevel(reload(), log); });
  self_probe.reset();
  ExitOnNextStopSignal(kServeKilled);
  log.Info("stopping", {{"signal", absl::StrCat(signal_number)},
                        {"drain_timeout_ms", absl::StrCat(config.drain_timeout_ms)}});
  const auto record = [&] {
    std::call_once(stop_recorded, [&] {
      server->protection->Record("server_stopped", {{"signal", absl::StrCat(signal_number)}});
    });
  };
  const auto cut_off = [&log] {
    log.Warning("stopped at the end of the drain timeout; unfinished work was cut off",
                {{"durable_rounds", "continue after the next start"}});
  };
  const auto timeout = std::max<std::chrono::milliseconds>(
      std::chrono::milliseconds(config.drain_timeout_ms), kStopTimeMin);
  stop_deadline.emplace(std::chrono::steady_clock::now() + timeout, kServeStopped, [&] {
    record();
    cut_off();
  });
  const bool done = StopServer(*server, config);
  record();
  if (!done) {
    cut_off();
    _exit(kServeStopped);  // destructors would wait until the tasks are done
  }
  log.Info("stopped");
  return kServeStopped;
}

}  // namespace sparseagg
