#include "service/gpu_loss.h"

#include <cstdlib>
#include <string>

#include "base/status.h"

namespace sparseagg {

void GpuLoss::Report(const absl::Status& fault) {
  log_.Error(exit_code_ != 0 ? "a GPU is lost; the server ends"
                             : "a GPU is lost; rounds continue without it",
             {{"reason", ErrorReason(fault)}, {"message", std::string(fault.message())}});
  // Immediately, because threads may wait for the device for ever.
  if (exit_code_ != 0) std::_Exit(exit_code_);
  const std::lock_guard lock(mutex_);
  lost_ = true;
  if (server_ != nullptr) server_->SetBackendLost();
}

void GpuLoss::Attach(GrpcServer* server) {
  const std::lock_guard lock(mutex_);
  server_ = server;
  if (lost_ && server_ != nullptr) server_->SetBackendLost();
}

}  // namespace sparseagg
