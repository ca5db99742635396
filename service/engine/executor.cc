#include "service/engine/executor.h"

#include <algorithm>
#include <utility>

namespace sparseagg {

ThreadPool::ThreadPool(uint32_t threads) {
  for (uint32_t i = 0; i < std::max(threads, 1u); ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

ThreadPool::~ThreadPool() {
  WaitUntilIdle();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void ThreadPool::Post(Task task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void ThreadPool::PostAfter(std::chrono::milliseconds delay, Task task) {
  {
    std::lock_guard lock(mutex_);
    delayed_.emplace(std::chrono::steady_clock::now() + delay, std::move(task));
  }
  changed_.notify_all();
}

void ThreadPool::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && running_ == 0; });
}

size_t ThreadPool::waiting() const {
  std::lock_guard lock(mutex_);
  return tasks_.size();
}

void ThreadPool::WaitForTask(std::unique_lock<std::mutex>& lock) {
  while (!stopping_ && tasks_.empty()) {
    if (delayed_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto due = delayed_.begin()->first;
    if (std::chrono::steady_clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    tasks_.push_back(std::move(delayed_.begin()->second));
    delayed_.erase(delayed_.begin());
  }
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    WaitForTask(lock);
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;  // what it holds is released before it counts as done
    lock.lock();
    if (--running_ == 0 && tasks_.empty()) changed_.notify_all();
  }
}

struct Strand::Queue : std::enable_shared_from_this<Queue> {
  explicit Queue(Executor& e) : executor(e) {}

  // One task for each turn on the executor, so that a long strand does not keep others waiting.
  void RunOne() {
    Task task;
    {
      std::lock_guard lock(mutex);
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    task();
    task = nullptr;
    std::lock_guard lock(mutex);
    if (tasks.empty()) {
      active = false;
    } else {
      PostNext();
    }
  }

  void PostNext() {
    executor.Post([self = shared_from_this()] { self->RunOne(); });
  }

  Executor& executor;
  std::mutex mutex;
  std::deque<Task> tasks;
  bool active = false;  // a turn is posted or running
};

Strand::Strand(Executor& executor) : queue_(std::make_shared<Queue>(executor)) {}

void Strand::Post(Task task) {
  std::lock_guard lock(queue_->mutex);
  queue_->tasks.push_back(std::move(task));
  if (!std::exchange(queue_->active, true)) queue_->PostNext();
}

}  // namespace sparseagg
