// An executor for tests: it runs tasks only on request, on the caller's thread, and has a clock of
// its own, so that everything happens in the same order in every run.
#ifndef SPARSEAGG_TESTS_SUPPORT_MANUAL_EXECUTOR_H_
#define SPARSEAGG_TESTS_SUPPORT_MANUAL_EXECUTOR_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "service/engine/round/executor.h"

namespace sparseagg::testing {

// One thread uses it.
class ManualExecutor : public Executor {
 public:
  void Post(Task task) override { queued_.push_back(std::move(task)); }
  void PostAfter(std::chrono::milliseconds delay, Task task) override {
    delayed_.emplace(now_ + delay, std::move(task));
  }
  using Executor::WaitUntilIdle;
  bool WaitUntilIdle(std::chrono::steady_clock::time_point /*deadline*/) override {
    while (!queued_.empty()) RunOne(0);
    return true;
  }

  // Number of tasks that are ready to run. A strand has at most one in the queue, so they may run
  // in any order.
  size_t queued() const { return queued_.size(); }
  size_t waiting() const override { return queued_.size(); }
  // Runs the queued task number `choice`. REQUIRES: choice < queued().
  void RunOne(size_t choice) {
    const auto at = queued_.begin() + static_cast<std::ptrdiff_t>(choice);
    Task task = std::move(*at);
    queued_.erase(at);
    task();
  }
  // Advances the clock and queues the tasks that are due then.
  void Advance(std::chrono::milliseconds by) {
    now_ += by;
    while (!delayed_.empty() && delayed_.begin()->first <= now_) {
      queued_.push_back(std::move(delayed_.begin()->second));
      delayed_.erase(delayed_.begin());
    }
  }
  size_t delayed() const { return delayed_.size(); }
  // Drops all tasks, as the end of the process would. REQUIRES: the engine that posted them still
  // exists.
  void DropAll() {
    queued_.clear();
    delayed_.clear();
  }

 private:
  std::chrono::milliseconds now_{0};
  std::deque<Task> queued_;
  std::multimap<std::chrono::milliseconds, Task> delayed_;
};

}  // namespace sparseagg::testing

#endif  // SPARSEAGG_TESTS_SUPPORT_MANUAL_EXECUTOR_H_
