// Separates two kinds of steps: commits, which run concurrently, and cuts (seal, abort, delete,
// drain), which run while no commit is in progress. This is a shared mutex that prefers writers: a
// waiting cut blocks new commits, so that many commits cannot starve it.
#ifndef SPARSEAGG_SERVICE_ENGINE_ROUND_COMMIT_GATE_H_
#define SPARSEAGG_SERVICE_ENGINE_ROUND_COMMIT_GATE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace sparseagg {

// Thread-safe; not recursive. Use it with std::shared_lock for a commit and std::unique_lock for a
// cut.
class CommitGate {
 public:
  void lock_shared() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return cuts_ == 0; });
    ++commits_;
  }
  void unlock_shared() {
    std::lock_guard lock(mutex_);
    if (--commits_ == 0) changed_.notify_all();
  }
  void lock() {
    std::unique_lock lock(mutex_);
    ++cuts_;
    changed_.wait(lock, [this] { return commits_ == 0 && !cutting_; });
    cutting_ = true;
  }
  bool try_lock_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    ++cuts_;
    const auto is_free = [this] { return commits_ == 0 && !cutting_; };
    if (changed_.wait_until(lock, deadline, is_free)) {
      cutting_ = true;
      return true;
    }
    --cuts_;
    changed_.notify_all();
    return false;
  }
  void unlock() {
    std::lock_guard lock(mutex_);
    cutting_ = false;
    --cuts_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t commits_ = 0;  // inside
  uint64_t cuts_ = 0;     // waiting or inside
  bool cutting_ = false;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_ENGINE_ROUND_COMMIT_GATE_H_
