#include "cuda/device/device_thread.h"

#include <optional>
#include <utility>

namespace sparseagg::gpu {

DeviceThread::DeviceThread() : thread_([this] { Loop(); }) {}

DeviceThread::~DeviceThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::future<absl::Status> DeviceThread::Post(Task task) {
  std::future<absl::Status> done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
  return done;
}

uint64_t DeviceThread::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size();
}

double DeviceThread::busy_seconds() const {
  const std::lock_guard lock(mutex_);
  std::chrono::duration<double> busy = busy_;
  if (began_.has_value()) busy += std::chrono::steady_clock::now() - *began_;
  return busy.count();
}

void DeviceThread::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::optional<Task> task(std::move(tasks_.front()));
    tasks_.pop_front();
    began_ = std::chrono::steady_clock::now();
    lock.unlock();
    (*task)();
    task.reset();  // what it owns may wait for the device
    lock.lock();
    busy_ += std::chrono::steady_clock::now() - *std::exchange(began_, std::nullopt);
  }
}

}  // namespace sparseagg::gpu
