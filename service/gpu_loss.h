// What happens when the GPU fails while it is used: a line in the log, and the health service
// tells, or the process ends.
#ifndef SPARSEAGG_SERVICE_GPU_LOSS_H_
#define SPARSEAGG_SERVICE_GPU_LOSS_H_

#include <mutex>

#include "absl/status/status.h"
#include "service/rpc/grpc_server.h"
#include "service/telemetry/log.h"

namespace sparseagg {

// Thread-safe.
class GpuLoss {
 public:
  // `exit_code` 0: the process goes on.
  GpuLoss(const Log& log, int exit_code) : log_(log), exit_code_(exit_code) {}

  void Tell(const absl::Status& fault);
  // Tells `server`, too, from now on; null: nobody.
  void Attach(GrpcServer* server);

 private:
  const Log log_;
  const int exit_code_;
  std::mutex mutex_;
  bool lost_ = false;
  GrpcServer* server_ = nullptr;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_GPU_LOSS_H_
