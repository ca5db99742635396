#include "service/admin/admin_server.h"

#include <httplib.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/admin/admin_address.h"
#include "service/admin/bounded_http.h"
#include "service/admin/gauges.h"
#include "service/admin/history.h"
#include "service/admin/page.h"
#include "service/admin/profile.h"

namespace sparseagg {
namespace {

using std::chrono::system_clock;

// The number of threads: enough for a scraper, a page or two and a command, with a reserve for
// connections that send nothing. There is no keep-alive, because a page that polls once a second
// would occupy a thread.
constexpr size_t kThreads = 16;
constexpr size_t kBodyBytesMax = 4096;
constexpr size_t kRoundsShownMax = 1000;
constexpr int kProfileSecondsMax = 300;

constexpr char kJson[] = "application/json";
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr int kForbidden = 403;
constexpr int kNotFound = 404;
constexpr int kBadRequest = 400;
constexpr int kNotAllowed = 405;
constexpr int kConflict = 409;
constexpr int kNoRanges = 416;
constexpr int kNotReady = 503;
constexpr int kAccepted = 202;

// The page may run its own script and style, and send requests to this server.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

void Refuse(httplib::Response& response, int status, const std::string& message) {
  response.status = status;
  response.set_content(Dump({{"error", message}}) + "\n", kJson);
}

// Stores the parameter in `number` if the request has it. If it is not a number, answers with an
// error and returns false.
bool TakeNumber(const httplib::Request& request, const char* name, uint64_t& number,
                httplib::Response& response) {
  if (!request.has_param(name)) return true;
  const std::string text = request.get_param_value(name);
  if (absl::SimpleAtoi(text, &number)) return true;
  Refuse(response, kBadRequest,
         absl::StrCat(name, " must be a whole number, and is \"", text, "\""));
  return false;
}

// Wraps a handler that ignores the body of the request. httplib itself waits for a body until its
// timeout, even if the request announces none.
httplib::Server::HandlerWithContentReader WithoutBody(httplib::Server::Handler handler) {
  return
      [handler = std::move(handler)](const httplib::Request& request, httplib::Response& response,
                                     const httplib::ContentReader& body) {
        const bool announced =
            request.has_header("Content-Length") || request.has_header("Transfer-Encoding");
        if (announced && !body([](const char*, size_t) { return true; })) return;
        handler(request, response);
      };
}

// Replaces httplib's default options, with which a second process could share the port.
void SetSocketOptions(int socket) {
  const int yes = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

class AdminServerImpl : public AdminServer {
 public:
  explicit AdminServerImpl(AdminOptions options)
      : options_(std::move(options)), start_time_(system_clock::now()) {}
  ~AdminServerImpl() override;

  absl::Status Listen();

  int port() const override { return port_; }
  void SetServing(Engine& engine, const std::string& listen, Tasks* tasks) override;
  void SetStopping() override { phase_ = Phase::kStopping; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  void AddPages();
  void AddCommands();
  // If the request is not allowed, answers with an error and returns true.
  bool IsRefused(const Request& request, Response& response) const;
  void Sample(const std::stop_token& stop);

  // The configuration now in effect, in which the log level may have changed since the start.
  std::vector<ConfigRow> Config() const;
  std::string MetricsText() const;
  Json Status(uint64_t history_after) const;
  void AnswerRound(const Request& request, Response& response) const;
  void AnswerReady(Response& response) const;
  void SetLogLevel(const Request& request, Response& response) const;
  void Profile(const Request& request, Response& response);

  const AdminOptions options_;
  const system_clock::time_point start_time_;
  AdminAddress address_;
  int port_ = 0;
  History history_;
  std::atomic<Phase> phase_ = Phase::kStarting;
  std::string listen_;                     // set before engine_
  Tasks* tasks_ = nullptr;                 // set before engine_
  std::atomic<Engine*> engine_ = nullptr;  // null while starting
  std::atomic<bool> profiling_ = false;
  BoundedHttpServer http_;
  std::mutex mutex_;
  std::condition_variable_any never_;  // never notified, used for its timeout
  std::jthread listener_;
  std::jthread sampler_;
};

AdminServerImpl::~AdminServerImpl() { http_.stop(); }

absl::Status AdminServerImpl::Listen() {
  SPARSEAGG_ASSIGN_OR_RETURN(address_, ParseAdminAddress(options_.listen));
  http_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  http_.set_socket_options(SetSocketOptions);
  http_.set_payload_max_length(kBodyBytesMax);
  http_.set_tcp_nodelay(true);
  http_.set_default_headers({{"Cache-Control", "no-store"},
                             {"Content-Security-Policy", kContentPolicy},
                             {"X-Content-Type-Options", "nosniff"},
                             {"Referrer-Policy", "no-referrer"}});
  http_.set_pre_routing_handler([this](const Request& request, Response& response) {
    return IsRefused(request, response) ? httplib::Server::HandlerResponse::Handled
                                        : httplib::Server::HandlerResponse::Unhandled;
  });
  AddPages();
  AddCommands();
  port_ = address_.port == 0
              ? http_.bind_to_any_port(address_.host)
              : (http_.bind_to_port(address_.host, address_.port) ? address_.port : -1);
  if (port_ <= 0) {
    return MakeError(
        absl::StatusCode::kUnavailable, "CANNOT_LISTEN",
        absl::StrCat("cannot listen on ", options_.listen,
                     ": the address is in use or not on this machine; choose another with "
                     "--admin-listen, or turn the admin port off with --admin-listen=none"));
  }
  listener_ = std::jthread([this] { http_.listen_after_bind(); });
  sampler_ = std::jthread([this](const std::stop_token& stop) { Sample(stop); });
  // stop() has no effect before the server runs; this takes microseconds.
  while (!http_.is_running()) std::this_thread::yield();
  return absl::OkStatus();
}

bool AdminServerImpl::IsRefused(const Request& request, Response& response) const {
  if (request.has_header("Range")) {
    response.status = kNoRanges;  // no body, because httplib would send it once per range
    return true;
  }
  const std::string host = request.get_header_value("Host");
  if (address_.is_loopback && !NamesLoopback(host)) {
    Refuse(response, kForbidden, "the Host header does not name this machine");
    return true;
  }
  if (request.method == "GET" || request.method == "HEAD") return false;
  if (!IsLoopback(request.remote_addr) || !request.has_header("X-Sparseagg-Admin")) {
    Refuse(response, kForbidden,
           "commands are taken from this machine only, with the header X-Sparseagg-Admin: 1");
    return true;
  }
  if (!IsOwnHost(host, address_)) {
    Refuse(
        response, kForbidden,
        "commands are sent to loopback, to an address in numbers or to the host of admin-listen");
    return true;
  }
  if (request.method == "POST") return false;
  Refuse(response, kNotAllowed, "commands need the method POST");
  return true;
}

void AdminServerImpl::AddPages() {
  http_.Get("/", [](const Request&, Response& response) {
    response.set_content(kStatusPage.data(), kStatusPage.size(), "text/html; charset=utf-8");
  });
  http_.Get("/healthz",
            [](const Request&, Response& response) { response.set_content("ok\n", kText); });
  http_.Get("/readyz", [this](const Request&, Response& response) { AnswerReady(response); });
  http_.Get("/metrics", [this](const Request&, Response& response) {
    response.set_content(MetricsText(), "text/plain; version=0.0.4; charset=utf-8");
  });
  http_.Get("/api/status", [this](const Request& request, Response& response) {
    uint64_t after = 0;
    if (TakeNumber(request, "after", after, response)) {
      response.set_content(Dump(Status(after)), kJson);
    }
  });
  http_.Get("/api/rounds", [this](const Request& request, Response& response) {
    Engine* engine = engine_;
    if (engine == nullptr) return Refuse(response, kNotReady, "the server is starting");
    uint64_t limit = kRoundsShownMax;
    if (!TakeNumber(request, "limit", limit, response)) return;
    response.set_content(Dump(RoundsJson(*engine, std::min<uint64_t>(limit, kRoundsShownMax))),
                         kJson);
  });
  http_.Get("/api/round",
            [this](const Request& request, Response& response) { AnswerRound(request, response); });
  http_.Get("/api/config", [this](const Request&, Response& response) {
    response.set_content(Dump(ConfigJson(Config())), kJson);
  });
}

void AdminServerImpl::AddCommands() {
  const auto command = [this](const std::string& path, httplib::Server::Handler handler) {
    http_.Post(path, WithoutBody(std::move(handler)));
  };
  command("/api/drain", [this](const Request&, Response& response) {
    options_.log.Info("drain requested");
    response.status = kAccepted;
    response.set_content(Dump({{"phase", "stopping"}}) + "\n", kJson);
    options_.stop();
  });
  command("/api/log-level",
          [this](const Request& request, Response& response) { SetLogLevel(request, response); });
  command("/api/profile",
          [this](const Request& request, Response& response) { Profile(request, response); });
  command(".*", [](const Request& request, Response& response) {
    Refuse(response, kNotFound, absl::StrCat("there is no command ", request.path));
  });
}

void AdminServerImpl::SetServing(Engine& engine, const std::string& listen, Tasks* tasks) {
  listen_ = listen;
  tasks_ = tasks;
  engine_ = &engine;
  phase_ = Phase::kServing;
}

void AdminServerImpl::Sample(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    Engine* engine = engine_;
    if (engine != nullptr) {
      history_.Add(system_clock::now(), options_.metrics->totals(), engine->Stats());
    }
    never_.wait_for(lock, stop, History::kInterval, [] { return false; });
  }
}

std::vector<ConfigRow> AdminServerImpl::Config() const {
  std::vector<ConfigRow> rows = options_.config;
  const std::string level(LogLevelName(options_.log.level()));
  for (ConfigRow& row : rows) {
    if (row.name != "log-level" || row.value == level) continue;
    row.value = level;
    row.source = "changed while the server runs";
  }
  return rows;
}

std::string AdminServerImpl::MetricsText() const {
  std::vector<prometheus::MetricFamily> families = options_.metrics->registry().Collect();
  const auto append = [&families](std::vector<prometheus::MetricFamily> more) {
    std::move(more.begin(), more.end(), std::back_inserter(families));
  };
  prometheus::MetricFamily build =
      Gauge("sparseagg_build_info", "1, with the version in a label", 1);
  build.metric.front().label = {{"version", options_.version}};
  const Engine* engine = engine_;
  if (engine != nullptr) {
    const BackendInfo& backend = engine->backend_info();
    build.metric.front().label.push_back({"backend", backend.name});
    build.metric.front().label.push_back({"device", backend.description});
    const EngineStats stats = engine->Stats();
    append(EngineGauges(stats, engine->limits()));
    if (!stats.devices.empty()) append(DeviceGauges(stats.devices));
    if (!stats.leaves.empty()) append(LeafGauges(stats.leaves));
    if (tasks_ != nullptr) append(TaskGauges(tasks_->Stats(), tasks_->limits()));
    append({Gauge("sparseagg_store_free_bytes_min", "Limit store-free-bytes-min",
                  static_cast<double>(engine->limits().store_free_bytes_min))});
  }
  append({build, Gauge("sparseagg_ready", "1 when rounds and updates are taken",
                       phase_ == Phase::kServing ? 1 : 0)});
  if (const auto free_bytes = FreeBytes(options_.data_dir)) {
    append({Gauge("sparseagg_store_free_bytes", "Room on the disk of the data directory",
                  static_cast<double>(*free_bytes))});
  }
  const std::chrono::duration<double> since_1970 = start_time_.time_since_epoch();
  append(ProcessGauges(ReadProcessStats(), since_1970.count()));
  return prometheus::TextSerializer().Serialize(families);
}

Json AdminServerImpl::Status(uint64_t history_after) const {
  const Engine* engine = engine_;
  return StatusJson({.version = options_.version,
                     .listen = engine == nullptr ? "" : listen_,
                     .data_dir = options_.data_dir,
                     .phase = phase_,
                     .start_time = start_time_,
                     .now = system_clock::now(),
                     .engine = engine,
                     .tasks = engine == nullptr ? nullptr : tasks_,
                     .metrics = *options_.metrics,
                     .refusals = *options_.refusals,
                     .history = history_,
                     .history_after = history_after});
}

void AdminServerImpl::AnswerReady(Response& response) const {
  const Phase phase = phase_;
  std::string text(PhaseName(phase));
  const uint64_t mismatched = options_.metrics->verifications().mismatched;
  if (mismatched > 0) {
    absl::StrAppend(&text, "; the back end computed ", mismatched, " wrong results (verify-share)");
  }
  if (phase != Phase::kServing || mismatched > 0) response.status = kNotReady;
  response.set_content(absl::StrCat(text, "\n"), kText);
}

void AdminServerImpl::AnswerRound(const Request& request, Response& response) const {
  Engine* engine = engine_;
  if (engine == nullptr) return Refuse(response, kNotReady, "the server is starting");
  const absl::StatusOr<RoundSnapshot> round = engine->GetRound(request.get_param_value("name"));
  if (!round.ok()) return Refuse(response, kNotFound, std::string(round.status().message()));
  response.set_content(Dump(RoundJson(*round)), kJson);
}

void AdminServerImpl::SetLogLevel(const Request& request, Response& response) const {
  const std::string name = request.get_param_value("level");
  const std::optional<LogLevel> level = ParseLogLevel(name);
  if (!level) {
    return Refuse(response, kBadRequest, "level must be debug, info, warning or error");
  }
  options_.log.ChangeLevel("log level changed", *level);
  response.set_content(Dump({{"level", name}}) + "\n", kJson);
}

void AdminServerImpl::Profile(const Request& request, Response& response) {
  uint64_t seconds = 10;
  if (!TakeNumber(request, "seconds", seconds, response)) return;
  if (seconds < 1 || seconds > kProfileSecondsMax) {
    return Refuse(response, kBadRequest,
                  absl::StrCat("seconds must be from 1 to ", kProfileSecondsMax));
  }
  if (profiling_.exchange(true)) {
    return Refuse(response, kConflict, "another profile is being taken");
  }
  absl::StatusOr<std::string> profile =
      TakeCpuProfile(std::chrono::seconds(seconds), sampler_.get_stop_token());
  profiling_ = false;
  if (!profile.ok()) {
    return Refuse(response, kNotReady, std::string(profile.status().message()));
  }
  response.set_content(*std::move(profile), "application/octet-stream");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(AdminOptions options) {
  auto server = std::make_unique<AdminServerImpl>(std::move(options));
  SPARSEAGG_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace sparseagg
