#include "cuda/gpu.h"

#include "absl/strings/str_cat.h"

namespace sparseagg::gpu {

bool Gpu::Hangs() {
  const bool reductions = reductions_.Barks();
  if (!reductions && !transfers_.Barks()) return false;
  device_
      .Lose(absl::StrCat("it has not answered for ", tuning_.wait_max.count(), " s",
                         reductions ? context_.queue.work().Describe() : ""))
      .IgnoreError();
  return true;
}

absl::Status Gpu::health() {
  Hangs();
  return device_.health();
}

absl::Status Gpu::Await(std::future<absl::Status> task) {
  while (!Hangs()) {
    if (task.wait_for(tuning_.watch_period) == std::future_status::ready) return task.get();
  }
  return device_.health();
}

}  // namespace sparseagg::gpu
