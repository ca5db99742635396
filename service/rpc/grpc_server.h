// A listening gRPC server with the services that every deployment expects: aggregation, health and,
// in a server without authentication, reflection.
#ifndef SPARSEAGG_SERVICE_RPC_GRPC_SERVER_H_
#define SPARSEAGG_SERVICE_RPC_GRPC_SERVER_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/rpc/aggregation_service.h"
#include "service/rpc/call_observer.h"
#include "service/rpc/local/local_calls.h"
#include "service/rpc/tasks/task_service.h"
#include "service/tasks/tasks.h"

namespace sparseagg {

// The health service answers for this name whether the back end still uses its own processor.
inline constexpr char kBackendHealthName[] = "sparseagg.backend";

class GrpcServer {
 public:
  // Listens on `listen` (HOST:PORT or unix:PATH). UNAVAILABLE (CANNOT_LISTEN) when the address is
  // in use or not one of this machine's; INVALID_ARGUMENT (TLS_FILES_INVALID). `engine` and
  // `tasks` must outlive the server. Without tasks it has no TaskService.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const std::string& listen, Engine& engine, v1::ServerInfo info, ServerSecurity security = {},
      std::shared_ptr<CallObserver> observer = std::make_shared<CallObserver>(),
      Tasks* tasks = nullptr);
  // Stops at once if Stop() was not called.
  ~GrpcServer();

  // The bound port; 0 for a unix socket.
  int port() const { return port_; }

  // Returns calls to this server that need no connection. To be destroyed before Stop().
  std::unique_ptr<LocalCalls> NewLocalCalls();

  // Makes the health service answer NOT_SERVING for kBackendHealthName: the server works, but on
  // another processor than the configured one. Thread-safe; does nothing after Stop().
  void SetBackendLost();

  // Makes the health service answer NOT_SERVING and ends the calls of DrainList. Other calls in
  // progress continue. To be followed by Stop().
  void Drain();
  // Accepts no new calls, waits for those in progress, cancels the rest at `deadline`, and waits
  // until they have ended.
  void Stop(std::chrono::system_clock::time_point deadline);

 private:
  GrpcServer(Engine& engine, v1::ServerInfo info, ServerSecurity security, Tasks* tasks);

  const std::shared_ptr<grpc::ServerCredentials> credentials_;  // outlives the server
  AggregationService service_;
  const std::unique_ptr<TaskService> task_service_;  // null: there are no tasks
  std::mutex mutex_;  // guards the health service in SetBackendLost() against the destruction of:
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_RPC_GRPC_SERVER_H_
