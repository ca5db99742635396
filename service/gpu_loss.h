// Reacts to a GPU that fails in use: writes a line to the log, and reports it through the health
// service or ends the process.
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
  // `exit_code` 0: the process continues.
  GpuLoss(const Log& log, int exit_code) : log_(log), exit_code_(exit_code) {}

  void Report(const absl::Status& fault);
  // Sets the server whose health service reports the loss; null: none.
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
