// The HTTP edge: the unary calls of the server for clients that cannot speak gRPC, over HTTP/1.1
// (web_protocol.h), on a port of its own. Each request becomes a call within the process
// (service/rpc/local/local_calls.h), so handlers, authorisation, limits, audit and errors are those
// of gRPC. docs/http.md describes it for users.
#ifndef SPARSEAGG_SERVICE_HTTP_HTTP_EDGE_H_
#define SPARSEAGG_SERVICE_HTTP_HTTP_EDGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/auth/authenticator.h"
#include "service/auth/tls_files.h"
#include "service/engine/limits.h"
#include "service/rpc/local/local_calls.h"

namespace sparseagg {

struct HttpEdgeOptions {
  std::string listen;  // HOST:PORT; port 0: any free one
  TlsFiles tls;
  std::string origins;  // Origins
  uint64_t connections_max = 0;
  uint64_t bytes_max = 0;  // MemoryBudget
  Limits limits;
  Authenticator* authenticator = nullptr;  // null: everyone may call; must outlive the edge
  // Called when the number of open connections has changed. From any thread; must not block.
  std::function<void(size_t open)> on_connections = [](size_t) {};
};

// Thread-safe.
class HttpEdge {
 public:
  // UNAVAILABLE (CANNOT_LISTEN), INVALID_ARGUMENT (TLS_FILES_INVALID).
  static absl::StatusOr<std::unique_ptr<HttpEdge>> Start(HttpEdgeOptions options,
                                                         std::unique_ptr<LocalCalls> calls);
  virtual ~HttpEdge() = default;  // stops at once if Stop() was not called

  virtual int port() const = 0;

  // Accepts no new connections, closes the idle ones, waits for the requests in progress, and cuts
  // off the rest at `deadline`.
  virtual void Stop(std::chrono::system_clock::time_point deadline) = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_HTTP_HTTP_EDGE_H_
