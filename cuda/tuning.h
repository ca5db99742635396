// Every size that decides speed and nothing else. None has been measured on a GPU yet: they are the
// model's (docs/decisions/0009-gpu-plans.md).
#ifndef SPARSEAGG_CUDA_TUNING_H_
#define SPARSEAGG_CUDA_TUNING_H_

#include <cstdint>

namespace sparseagg::gpu {

struct Tuning {
  // A transfer starts when so much has been staged: long enough to reach the rate of the bus.
  uint64_t upload_bytes = uint64_t{4} << 20;
  // A batch is reduced when it has as many bytes as the state, so that no entry is merged more than
  // a few times, but within these bounds.
  uint64_t batch_bytes_min = uint64_t{64} << 20;
  // A reduction takes up to 16 times the bytes of its entries.
  uint64_t batch_share_of_memory = 32;
};

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_TUNING_H_
