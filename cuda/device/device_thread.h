// The one thread that launches kernels: work of all tensors that are open, one piece after another,
// while the threads of the rounds stage and upload what comes next.
#ifndef SPARSEAGG_CUDA_DEVICE_DEVICE_THREAD_H_
#define SPARSEAGG_CUDA_DEVICE_DEVICE_THREAD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/status.h"

namespace sparseagg::gpu {

// Thread-safe. Runs everything that was posted before it goes.
class DeviceThread {
 public:
  using Task = std::packaged_task<absl::Status()>;

  DeviceThread();
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  std::future<absl::Status> Post(Task task);

  uint64_t waiting() const;     // tasks that have not begun
  double busy_seconds() const;  // in which there was one, the one under way included

 private:
  void Loop();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::chrono::steady_clock::duration busy_{0};
  std::optional<std::chrono::steady_clock::time_point> began_;  // the task under way
  std::thread thread_;  // last: started when the rest is there
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_DEVICE_DEVICE_THREAD_H_
