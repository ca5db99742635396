// Every size that decides speed and nothing else, and when the device counts as lost. None has been
// measured on a GPU yet: they are the model's (docs/decisions/0009-gpu-plans.md).
#ifndef SPARSEAGG_CUDA_TUNING_H_
#define SPARSEAGG_CUDA_TUNING_H_

#include <chrono>
#include <cstdint>
#include <functional>

namespace sparseagg::gpu {

using Clock = std::function<std::chrono::steady_clock::time_point()>;

struct Tuning {
  // Measure the device's rates at the start; otherwise they are the usual ones.
  bool calibrate = true;
  // A transfer starts when so much has been staged: long enough to reach the rate of the bus.
  uint64_t upload_bytes = uint64_t{4} << 20;
  // A batch is reduced when it has this number of bytes: its reduction takes less time than the
  // next one takes on the bus, and it bounds what is left to do when the last update has arrived.
  uint64_t batch_bytes = uint64_t{64} << 20;
  // A reduction takes up to 16 times the bytes of its entries.
  uint64_t batch_share_of_memory = 32;
  // A device that lets its thread wait for so long hangs: what is queued at a time takes seconds at
  // most, also beside other users of the device.
  std::chrono::seconds wait_max{60};
  std::chrono::milliseconds watch_period{100};  // how often who waits for that thread looks
  Clock clock = &std::chrono::steady_clock::now;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_TUNING_H_
