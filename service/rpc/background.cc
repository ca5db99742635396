#include "service/rpc/background.h"

#include <limits>
#include <utility>

namespace sparseagg {

Background::Background(int threads) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Background::Run(std::function<void()> job) {
  RunUnlessFull(std::move(job), std::numeric_limits<size_t>::max());
}

bool Background::RunUnlessFull(std::function<void()> job, size_t jobs_max) {
  {
    const std::lock_guard lock(mutex_);
    if (jobs_.size() + running_ >= jobs_max) return false;
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
  return true;
}

void Background::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++running_;
    lock.unlock();
    job();
    job = nullptr;  // what it holds is released outside the lock
    lock.lock();
    --running_;
  }
}

}  // namespace sparseagg
