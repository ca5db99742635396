// When to look at something next: soon after a change, and more rarely the longer nothing changes.
#ifndef SPARSEAGG_SERVICE_TREE_BACKOFF_H_
#define SPARSEAGG_SERVICE_TREE_BACKOFF_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sparseagg {

// Thread-compatible. Due from the beginning.
class Backoff {
 public:
  using Time = std::chrono::steady_clock::time_point;

  Time due() const { return due_; }
  // To be passed to Wait() or Double(), which do nothing if Wake() was called after it.
  uint64_t wakes() const { return wakes_; }
  void Wake() {
    due_ = {};
    pause_ = {};
    ++wakes_;
  }
  void Wait(uint64_t wakes, Time now, std::chrono::milliseconds pause) {
    if (wakes != wakes_) return;
    pause_ = {};
    due_ = now + pause;
  }
  // Waits for `shortest`, and then for twice the pause before, at most for `longest`.
  void Double(uint64_t wakes, Time now, std::chrono::milliseconds shortest,
              std::chrono::milliseconds longest) {
    if (wakes != wakes_) return;
    pause_ = std::min(longest, std::max(shortest, 2 * pause_));
    due_ = now + pause_;
  }

 private:
  Time due_{};
  std::chrono::milliseconds pause_{0};
  uint64_t wakes_ = 0;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_TREE_BACKOFF_H_
