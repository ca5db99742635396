#include "service/engine/round/executor.h"

#include <algorithm>
#include <utility>

namespace sparseagg {

ThreadPool::ThreadPool(uint32_t threads) {
  for (uint32_t i = 0; i < std::max(threads, 1u); ++i) {
    threads_.emplace_back([this] { Work(); });
  }
  timer_ = std::jthread([this] { WatchTime(); });
}

ThreadPool::~ThreadPool() {
  WaitUntilIdle();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  time_.notify_all();
}

void ThreadPool::Post(Task task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  work_.notify_one();
}

void ThreadPool::PostAfter(std::chrono::milliseconds delay, Task task) {
  {
    std::lock_guard lock(mutex_);
    delayed_.emplace(std::chrono::steady_clock::now() + delay, std::move(task));
  }
  time_.notify_one();
}

bool ThreadPool::WaitUntilIdle(std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [this] { return tasks_.empty() && running_ == 0; });
}

size_t ThreadPool::waiting() const {
  std::lock_guard lock(mutex_);
  return tasks_.size();
}

void ThreadPool::WatchTime() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (delayed_.empty()) {
      time_.wait(lock);
      continue;
    }
    const auto due = delayed_.begin()->first;
    if (std::chrono::steady_clock::now() < due) {
      time_.wait_until(lock, due);
      continue;
    }
    tasks_.push_back(std::move(delayed_.begin()->second));
    delayed_.erase(delayed_.begin());
    work_.notify_one();
  }
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    ++running_;
    lock.unlock();
    task();
    task = nullptr;  // destroyed before the task counts as done
    lock.lock();
    if (--running_ == 0 && tasks_.empty()) idle_.notify_all();
  }
}

struct Strand::Queue : std::enable_shared_from_this<Queue> {
  // One task of the strand on the executor. If the executor destroys it without running it, the
  // strand's other tasks are destroyed, too: they may own the strand, and would never run.
  class Turn {
   public:
    explicit Turn(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}
    Turn(Turn&&) = default;
    ~Turn() {
      if (queue_ != nullptr) queue_->Abandon();
    }
    void operator()() { std::exchange(queue_, nullptr)->RunOne(); }

   private:
    std::shared_ptr<Queue> queue_;
  };

  explicit Queue(Executor& e) : executor(e) {}

  void Post(Task task) {
    std::lock_guard lock(mutex);
    if (abandoned) return;
    tasks.push_back(std::move(task));
    if (!std::exchange(active, true)) PostNext();
  }

  // Runs one task, then posts the next turn, so that a long strand does not delay others.
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

  void PostNext() { executor.Post(Turn(shared_from_this())); }

  void Abandon() {
    std::deque<Task> dropped;  // destroyed after the lock is released
    std::lock_guard lock(mutex);
    abandoned = true;
    dropped.swap(tasks);
  }

  Executor& executor;
  std::mutex mutex;
  std::deque<Task> tasks;
  bool active = false;     // a turn is posted or running
  bool abandoned = false;  // the executor has dropped a turn; no task runs any more
};

Strand::Strand(Executor& executor) : queue_(std::make_shared<Queue>(executor)) {}

void Strand::Post(Task task) { queue_->Post(std::move(task)); }

}  // namespace sparseagg
