#include "service/rpc/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "service/rpc/observed_calls.h"

namespace sparseagg {
namespace {

// A client that has vanished without closing its connection is noticed after a minute. Clients may
// ping as often as every ten seconds.
void SetKeepalive(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

void SetLimits(const Limits& limits, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.message_bytes_max));
  builder.SetMaxSendMessageSize(-1);  // chunks bound the answers
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 256);
  // No compression: a message within the size limit could decompress to many times that size.
  builder.AddChannelArgument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  // Without SO_REUSEPORT, since a second server on the same port would silently get half of the
  // connections. Also, gRPC reloads TLS files only where one thread accepts all connections of a
  // port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

// Reflection answers without authentication, and linking it adds it to every server.
class WithoutReflection : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

// The time for connections without calls to close in good order.
constexpr std::chrono::milliseconds kGoodbye{200};

// Whether a server already answers on a Unix socket; gRPC would remove its file and replace it.
bool IsServed(const std::string& listen) {
  std::string_view path = listen;
  for (std::string_view prefix : {"unix://", "unix:"}) {
    if (path.starts_with(prefix)) path.remove_prefix(prefix.size());
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() == listen.size() || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool served =
      connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(probe);
  return served;
}

// gRPC would take a larger port modulo 2^16.
bool HasNoSuchPort(const std::string& listen) {
  uint32_t port = 0;
  return !listen.starts_with("unix:") &&
         absl::SimpleAtoi(listen.substr(listen.rfind(':') + 1), &port) && port > 65'535;
}

absl::Status CannotListen(const std::string& listen) {
  return MakeError(
      absl::StatusCode::kUnavailable, "CANNOT_LISTEN",
      absl::StrCat(
          "cannot listen on ", listen,
          ": the address is in use or not one of this machine's; choose another with --listen"));
}

}  // namespace

GrpcServer::GrpcServer(Engine& engine, v1::ServerInfo info, ServerSecurity security, Tasks* tasks)
    : credentials_(MakeServerCredentials(security)),
      service_(engine, std::move(info), std::move(security)),
      task_service_(tasks == nullptr
                        ? nullptr
                        : std::make_unique<TaskService>(service_.authoriser(), *tasks)) {}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const std::string& listen, Engine& engine, v1::ServerInfo info, ServerSecurity security,
    std::shared_ptr<CallObserver> observer, Tasks* tasks) {
  SPARSEAGG_RETURN_IF_ERROR(CheckTlsFiles(security.tls));
  if (HasNoSuchPort(listen)) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_CONFIG",
                     absl::StrCat("cannot listen on ", listen, ": the port is above 65535"));
  }
  if (IsServed(listen)) return CannotListen(listen);
  // The service refuses text that is not UTF-8. Protobuf would write a line about it to stderr,
  // with which a caller could fill our log.
  google::protobuf::SetLogHandler(nullptr);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  const bool for_everybody = security.authenticator == nullptr;
  if (tasks != nullptr) {
    security.holds_task = [tasks](const std::string& tenant, const std::string& principal,
                                  std::string_view round, std::string_view contributor) {
      return tasks->MaySubmit(tenant, principal, round, contributor);
    };
  }
  std::unique_ptr<GrpcServer> started(
      new GrpcServer(engine, std::move(info), std::move(security), tasks));
  grpc::ServerBuilder builder;
  if (!for_everybody) builder.SetOption(std::make_unique<WithoutReflection>());
  SetKeepalive(builder);
  SetLimits(engine.limits(), builder);
  int port = 0;
  builder.AddListeningPort(listen, started->credentials_, &port);
  builder.RegisterService(&started->service_);
  if (tasks != nullptr) builder.RegisterService(started->task_service_.get());
  ObserveCalls(std::move(observer), builder);
  started->server_ = builder.BuildAndStart();
  if (started->server_ == nullptr || port == 0) {
    return CannotListen(listen);
  }
  const bool is_unix_socket = listen.starts_with("unix:");
  started->port_ = is_unix_socket ? 0 : port;
  started->server_->GetHealthCheckService()->SetServingStatus(kAggregationServiceName, true);
  if (tasks != nullptr) {
    started->server_->GetHealthCheckService()->SetServingStatus(kTaskServiceName, true);
  }
  started->server_->GetHealthCheckService()->SetServingStatus(kBackendHealthName, true);
  return started;
}

GrpcServer::~GrpcServer() {
  if (server_ != nullptr) Stop(std::chrono::system_clock::now());
}

void GrpcServer::SetBackendLost() {
  const std::lock_guard lock(mutex_);
  if (server_ != nullptr)
    server_->GetHealthCheckService()->SetServingStatus(kBackendHealthName, false);
}

void GrpcServer::Drain() {
  server_->GetHealthCheckService()->SetServingStatus(false);
  service_.Drain();
  if (task_service_ != nullptr) task_service_->Drain();
}

void GrpcServer::Stop(std::chrono::system_clock::time_point deadline) {
  service_.WaitUntilIdle(deadline);
  if (task_service_ != nullptr) task_service_->WaitUntilIdle(deadline);
  const auto goodbye = std::chrono::system_clock::now() + kGoodbye;
  server_->Shutdown(std::min(deadline, goodbye));
  server_->Wait();
  const std::lock_guard lock(mutex_);
  server_.reset();
}

}  // namespace sparseagg
