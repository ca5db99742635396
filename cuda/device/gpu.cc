#include "cuda/device/gpu.h"

#include <atomic>

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

DeviceStats Gpu::stats() const {
  return {.device = absl::StrCat(device_.ordinal()),
          .lost = !device_.health().ok(),
          .memory_bytes = device_.pool().used_bytes(),
          .memory_bytes_max = device_.pool().budget_bytes(),
          .locked_bytes = (counts_staging_ ? context_.staging.locked_bytes() : 0) +
                          context_.results->locked_bytes(),
          .uploaded_bytes = context_.uploads.bytes.load(std::memory_order_relaxed),
          .downloaded_bytes = context_.downloads.bytes(),
          .queued_bytes = context_.uploads.waiting.load(std::memory_order_relaxed),
          .waiting_tasks = thread_.waiting(),
          .busy_seconds = thread_.busy_seconds()};
}

absl::Status Gpu::Await(std::future<absl::Status> task) {
  while (!Hangs()) {
    if (task.wait_for(tuning_.watch_period) == std::future_status::ready) return task.get();
  }
  return device_.health();
}

}  // namespace sparseagg::gpu
