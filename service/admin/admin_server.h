// The operator's HTTP port: metrics, health, the status page and a few commands.
//
//   GET  /  /metrics  /healthz  /readyz  /api/status  /api/rounds  /api/round  /api/config
//   POST /api/drain  /api/log-level  /api/profile       only from this machine, with the header
//                                                       X-Sparseagg-Admin: 1
//
// It has neither TLS nor authentication. Anyone who can connect may read. A POST needs a connection
// from this machine, the header above, which a foreign web page cannot send, and a Host header that
// IsOwnHost() accepts, against DNS rebinding. Bound to loopback, the server answers only requests
// whose Host names loopback.
#ifndef SPARSEAGG_SERVICE_ADMIN_ADMIN_SERVER_H_
#define SPARSEAGG_SERVICE_ADMIN_ADMIN_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/admin/metrics.h"
#include "service/admin/refusals.h"
#include "service/admin/status_json.h"
#include "service/engine/engine.h"
#include "service/tasks/tasks.h"
#include "service/telemetry/log.h"

namespace sparseagg {

struct AdminOptions {
  std::string listen;  // HOST:PORT; port 0: any free one
  std::string version;
  std::string data_dir;
  std::vector<ConfigRow> config;
  std::shared_ptr<Metrics> metrics;
  std::shared_ptr<Refusals> refusals;
  Log log;
  std::function<void()> stop;  // does what SIGTERM does
};

// Thread-safe.
class AdminServer {
 public:
  // UNAVAILABLE (CANNOT_LISTEN).
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(AdminOptions options);
  virtual ~AdminServer() = default;

  virtual int port() const = 0;

  // Marks the server as ready, and shows the state of `engine` and `tasks`, which must outlive
  // this. `listen` is the address of the gRPC server; `tasks` is null if there is no task service.
  virtual void SetServing(Engine& engine, const std::string& listen, Tasks* tasks = nullptr) = 0;
  virtual void SetStopping() = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ADMIN_ADMIN_SERVER_H_
