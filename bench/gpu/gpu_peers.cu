// In: a batch of scalars, or dense updates. Out: sums in f32, whose bits differ from run to run in
// the first case. One pass of CUB's sort over 8 bits moves 24 bytes an entry; dense addition reads
// 4 bytes a coordinate and update.
#include <cuda_profiler_api.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cuda/std/functional>

#include "bench/gpu/gpu_peers.h"
#include "cuda/kernels/launch/launch.cuh"
#include "cuda/kernels/slots.cuh"

namespace sparseagg::gpu {
namespace {

struct Products {
  BatchView batch;
  uint64_t* rows;
  float* products;

  SPARSEAGG_DEVICE void operator()(uint64_t e) const {
    const UpdateRef& update = batch.updates[SourceOf(batch, e)];
    rows[e] = update.rows[e - update.first];
    products[e] = update.weight * ValueAt<float>(update, e - update.first, 1, 0);
  }
};

struct SumDense {
  const float* updates;
  uint64_t rows;
  uint32_t contributors;
  float* sums;

  SPARSEAGG_DEVICE void operator()(uint64_t r) const {
    float sum = 0;
    for (uint32_t u = 0; u < contributors; ++u) sum += updates[u * rows + r];
    sums[r] = sum;
  }
};

}  // namespace

uint64_t SortReduceByCub(Queue& queue, const BatchView& batch) {
  const auto size = static_cast<uint32_t>(batch.nnz);
  DeviceArray<uint64_t> rows(queue, size);
  DeviceArray<uint64_t> other_rows(queue, size);
  DeviceArray<float> products(queue, size);
  DeviceArray<float> other_products(queue, size);
  ForEach(queue, size, Products{batch, rows.data(), products.data()});
  cub::DoubleBuffer<uint64_t> keys(rows.data(), other_rows.data());
  cub::DoubleBuffer<float> values(products.data(), other_products.data());
  size_t bytes = 0;
  CheckCuda(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, size, 0, 64,
                                            queue.cuda_stream()),
            "SortPairs");
  DeviceArray<std::byte> memory(queue, bytes);
  CheckCuda(cub::DeviceRadixSort::SortPairs(memory.data(), bytes, keys, values, size, 0, 64,
                                            queue.cuda_stream()),
            "SortPairs");
  DeviceArray<uint32_t> count(queue, 1);
  CheckCuda(cub::DeviceReduce::ReduceByKey(nullptr, bytes, keys.Current(), keys.Alternate(),
                                           values.Current(), values.Alternate(), count.data(),
                                           ::cuda::std::plus<>(), size, queue.cuda_stream()),
            "ReduceByKey");
  memory = DeviceArray<std::byte>(queue, bytes);
  CheckCuda(cub::DeviceReduce::ReduceByKey(memory.data(), bytes, keys.Current(), keys.Alternate(),
                                           values.Current(), values.Alternate(), count.data(),
                                           ::cuda::std::plus<>(), size, queue.cuda_stream()),
            "ReduceByKey");
  return queue.Read(count.data());
}

void AddDense(Queue& queue, const float* updates, uint64_t rows, uint32_t contributors,
              float* sums) {
  ForEach(queue, rows, SumDense{updates, rows, contributors, sums});
}

// Their results say nothing that matters here.
void StartProfile() { static_cast<void>(cudaProfilerStart()); }
void StopProfile() { static_cast<void>(cudaProfilerStop()); }

}  // namespace sparseagg::gpu
