// The version of gpu_peers.cu for the emulated GPU: CUB sorts on devices only.
#include <map>

#include "bench/gpu/gpu_peers.h"

namespace sparseagg::gpu {

uint64_t SortReduceByCub(Queue&, const BatchView& batch) {
  std::map<uint64_t, float> sums;
  for (uint32_t u = 0; u < batch.num_updates; ++u) {
    const UpdateRef& update = batch.updates[u];
    const auto* values = static_cast<const float*>(update.values);
    for (uint64_t e = 0; e < update.nnz; ++e) sums[update.rows[e]] += update.weight * values[e];
  }
  return sums.size();
}

void AddDense(Queue&, const float* updates, uint64_t rows, uint32_t contributors, float* sums) {
  for (uint64_t r = 0; r < rows; ++r) {
    sums[r] = 0;
    for (uint32_t u = 0; u < contributors; ++u) sums[r] += updates[u * rows + r];
  }
}

void StartProfile() {}
void StopProfile() {}

}  // namespace sparseagg::gpu
