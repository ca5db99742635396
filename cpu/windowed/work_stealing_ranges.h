// Assigns ranges to threads by work stealing. Each thread has a strip of contiguous ranges and
// takes them in order; an idle thread steals the last range of the strip that has most left.
#ifndef SPARSEAGG_CPU_WINDOWED_WORK_STEALING_RANGES_H_
#define SPARSEAGG_CPU_WINDOWED_WORK_STEALING_RANGES_H_

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

namespace sparseagg {

// Thread-safe.
class WorkStealingRanges {
 public:
  struct Taken {
    size_t range;
    bool follows;  // directly follows the range that was taken before for the same strip
  };

  // Divides `ranges` ranges into at most `threads` strips.
  WorkStealingRanges(size_t ranges, size_t threads) {
    const size_t strips = std::min(ranges, threads);
    for (size_t s = 0; s < strips; ++s) {
      const size_t begin = s * ranges / strips;
      left_.push_back({begin, begin, (s + 1) * ranges / strips});
    }
  }

  size_t size() const { return left_.size(); }

  // Returns the next range for the thread of `strip`; nullopt when all are taken.
  std::optional<Taken> Take(size_t strip) {
    std::lock_guard lock(mutex_);
    Left& own = left_[strip];
    if (own.next < own.end) {
      const bool follows = own.next > own.begin;
      return Taken{own.next++, follows};
    }
    const auto most = std::max_element(left_.begin(), left_.end(), [](auto& a, auto& b) {
      return a.end - a.next < b.end - b.next;
    });
    if (most->next == most->end) return std::nullopt;
    return Taken{--most->end, false};
  }

 private:
  struct Left {
    size_t begin;
    size_t next;
    size_t end;
  };

  std::mutex mutex_;
  std::vector<Left> left_;
};

}  // namespace sparseagg

#endif  // SPARSEAGG_CPU_WINDOWED_WORK_STEALING_RANGES_H_
