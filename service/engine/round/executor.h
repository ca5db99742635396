// Runs the tasks that fold updates and publish results. An Executor runs tasks; the server's is a
// thread pool. A Strand runs its tasks one after the other, in the order in which they were posted;
// tasks of different strands run concurrently. Each round has a strand.
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
  // Queues the task after `delay`. A task whose delay is not over when the executor is destroyed is
  // dropped.
  virtual void PostAfter(std::chrono::milliseconds delay, Task task) = 0;
  // Waits until no task is queued or running, at most until `deadline`, and returns whether that is
  // so. Does not wait for delayed tasks.
  virtual bool WaitUntilIdle(std::chrono::steady_clock::time_point deadline) = 0;
  void WaitUntilIdle() { WaitUntilIdle(std::chrono::steady_clock::time_point::max()); }
  // Returns the number of queued tasks that have not started.
  virtual size_t waiting() const = 0;
};

class ThreadPool : public Executor {
 public:
  // Starts `threads` threads, but at least one.
  explicit ThreadPool(uint32_t threads);
  // Runs all queued tasks, including those that they post, then joins the threads.
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
  // Each kind of wait has a condition variable of its own, so that a new task wakes exactly one
  // thread, which can run it.
  std::condition_variable work_;
  std::condition_variable time_;
  std::condition_variable idle_;
  std::deque<Task> tasks_;
  std::multimap<std::chrono::steady_clock::time_point, Task> delayed_;
  uint64_t running_ = 0;
  bool stopping_ = false;
  // Declared last, because the threads use the members above.
  std::vector<std::jthread> threads_;
  std::jthread timer_;  // queues delayed tasks when they are due
};

// Thread-safe. Posted tasks run even after the strand is destroyed. If the executor drops a task of
// the strand without running it, the strand is abandoned: its other tasks are destroyed without
// running. The executor must outlive the strand.
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
