#include "bench/gpu/reference_digest.h"

#include <cmath>
#include <map>
#include <vector>

namespace sparseagg::gpu {

uint64_t ReferenceDigest(Queue& queue, const DeviceBatch& batch, int32_t lsb) {
  const uint32_t width = batch.view.width;
  std::map<uint64_t, std::vector<Int128>> sums;
  for (const UpdateRef& update : batch.refs) {
    std::vector<uint64_t> rows(update.nnz);
    std::vector<float> values(update.nnz * width);
    queue.Download(rows.data(), update.rows, rows.size());
    queue.Download(values.data(), static_cast<const float*>(update.values), values.size());
    queue.Synchronize();
    for (uint64_t e = 0; e < update.nnz; ++e) {
      std::vector<Int128>& sum = sums[rows[e]];
      sum.resize(width);
      for (uint32_t c = 0; c < width; ++c) {
        // A product of two f32 numbers is exact in f64.
        const double product = double{update.weight} * double{values[e * width + c]};
        sum[c] += static_cast<Int128>(std::ldexp(product, -lsb));
      }
    }
  }
  uint64_t digest = 0;
  for (const auto& [row, sum] : sums) {
    for (uint32_t c = 0; c < width; ++c) digest += DigestOfSlot(row, c, sum[c]);
  }
  return digest;
}

}  // namespace sparseagg::gpu
