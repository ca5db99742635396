// What folds updates and publishes results. An Executor runs tasks, in the server on a pool of
// threads; a Strand runs its tasks one after the other in the order they were posted, and different
// strands side by side: one strand for each round.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_EXECUTOR_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_EXECUTOR_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace sparseagg {

// A task must not throw, and must not wait for another task.
using Task = absl::AnyInvocable<void()>;

// Thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void Post(Task task) = 0;
  // Queues the task when `delay` is over. One whose time has not come when the executor goes is
  // dropped.
  virtual void PostAfter(std::chrono::milliseconds delay, Task task) = 0;
  // Whether nothing is queued or running, at the latest at `deadline`; what is delayed is not
  // waited for.
  virtual bool WaitUntilIdle(std::chrono::steady_clock::time_point deadline) = 0;
  void WaitUntilIdle() { WaitUntilIdle(std::chrono::steady_clock::time_point::max()); }
  // Tasks that nobody has begun.
  virtual size_t waiting() const = 0;
};

class ThreadPool : public Executor {
 public:
  // At least one thread.
  explicit ThreadPool(uint32_t threads);
  // Runs what is queued, tasks that these post included, then ends the threads.
  ~ThreadPool() override;

  void Post(Task task) override;
  void PostAfter(std::chrono::milliseconds delay, Task task) override;
  using Executor::WaitUntilIdle;
  bool WaitUntilIdle(std::chrono::steady_clock::time_point deadline) override;
  size_t waiting() const override;

 private:
  void Work();
  void WatchTime();

  mutable std::mutex mutex_;
  // Each kind of waiting has its own, so that a task wakes one thread that can run it.
  std::condition_variable work_;
  std::condition_variable time_;
  std::condition_variable idle_;
  std::deque<Task> tasks_;
  std::multimap<std::chrono::steady_clock::time_point, Task> delayed_;
  uint64_t running_ = 0;
  bool stopping_ = false;
  // Last: the threads use the members above.
  std::vector<std::jthread> threads_;
  std::jthread timer_;  // moves delayed tasks when their time has come
};

// Thread-safe. Tasks that were posted run even when the strand is gone. An executor that drops a
// task of the strand unrun ends it: what is posted is released without being run. The executor must
// outlive the strand.
class Strand {
 public:
  explicit Strand(Executor& executor);
  void Post(Task task);

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_EXECUTOR_H_
