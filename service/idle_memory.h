// When freed memory goes back to the system: what nobody has wanted for a while. Until then it
// waits for the next round, which would spend up to half of its time on fresh pages; and a server
// without work does not keep what its largest round took.
#ifndef SPARSEAGG_SERVICE_IDLE_MEMORY_H_
#define SPARSEAGG_SERVICE_IDLE_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace sparseagg {

// The least that was free at any time of a period was free all through it.
class IdleMemory {
 public:
  // A period ends with every `looks`-th look. REQUIRES: looks > 0.
  explicit IdleMemory(uint64_t looks) : looks_(looks) {}

  // How much is to be given back now that `free_bytes` are free.
  uint64_t Look(uint64_t free_bytes) {
    least_ = std::min(least_, free_bytes);
    if (++seen_ < looks_) return 0;
    const uint64_t idle = least_;
    seen_ = 0;
    least_ = std::numeric_limits<uint64_t>::max();
    return idle;
  }

 private:
  const uint64_t looks_;
  uint64_t seen_ = 0;
  uint64_t least_ = std::numeric_limits<uint64_t>::max();
};

}  // namespace sparseagg

#endif  // SPARSEAGG_SERVICE_IDLE_MEMORY_H_
