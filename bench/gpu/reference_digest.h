// What the digest of a case's run must be, by plain integer sums on the host: for cases that are
// small.
#ifndef SPARSEAGG_BENCH_GPU_REFERENCE_DIGEST_H_
#define SPARSEAGG_BENCH_GPU_REFERENCE_DIGEST_H_

#include <cstdint>

#include "bench/gpu/device_batch.h"

namespace sparseagg::gpu {

// Values that the reference sums within a second or two.
inline constexpr uint64_t kReferenceValuesMax = uint64_t{1} << 22;

// Copies the batch to the host. REQUIRES: every product is a multiple of 2^lsb below 2^(lsb + 87),
// as those of MakeBatch() are.
uint64_t ReferenceDigest(Queue& queue, const DeviceBatch& batch, int32_t lsb);

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_BENCH_GPU_REFERENCE_DIGEST_H_
