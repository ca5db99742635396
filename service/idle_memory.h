// Decides how much freed memory goes back to the system: the amount that was not needed for a whole
// period. Freed memory is kept for a while because a round that has to fault in fresh pages spends
// up to half of its time on that. It is given back in the end so that an idle server does not keep
// the memory of its largest round.
#ifndef SPARSEAGG_SERVICE_IDLE_MEMORY_H_
#define SPARSEAGG_SERVICE_IDLE_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sparseagg {

// The minimum of the free bytes in a period was free during all of it.
class IdleMemory {
 public:
  // A period has `samples` calls of Sample(). REQUIRES: samples > 0.
  explicit IdleMemory(uint64_t samples) : samples_(samples) {}

  // Called at regular intervals with the number of free bytes. Returns how many to give back now.
  uint64_t Sample(uint64_t free_bytes) {
    least_ = std::min(least_, free_bytes);
    if (++seen_ < samples_) return 0;
    const uint64_t idle = least_;
    seen_ = 0;
    least_ = std::numeric_limits<uint64_t>::max();
    return idle;
  }

 private:
  const uint64_t samples_;
  uint64_t seen_ = 0;
  uint64_t least_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_IDLE_MEMORY_H_
