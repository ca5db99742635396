// Where Thrust's algorithms run: on the queue's stream, with its pool for their temporary memory.
// The tests have a second file of this name that runs them on the host.
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_THRUST_POLICY_CUH_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_THRUST_POLICY_CUH_

#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/launch/thrust_errors.cuh"
#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

// Hands the pool's memory to Thrust.
struct PoolAllocator {
  using value_type = char;
  Queue* queue;

  char* allocate(std::ptrdiff_t bytes) {
    return static_cast<char*>(queue->Allocate(static_cast<size_t>(bytes)));
  }
  void deallocate(char* memory, size_t bytes) { queue->Free(memory, bytes); }
};

// Calls f(policy), for an algorithm that need not wait for what it queues: scans. `algorithm` is
// its name, for errors.
template <class F>
void QueueThrust(Queue& queue, const char* algorithm, const F& f) {
  queue.Calls(algorithm);
  PoolAllocator allocator{&queue};
  WithErrorsOfThrust([&] { f(thrust::cuda::par_nosync(allocator).on(queue.cuda_stream())); });
}

// Calls f(policy) and gives its result. Thrust waits for the device inside the algorithms.
template <class F>
auto WithThrust(Queue& queue, const char* algorithm, const F& f) {
  queue.Calls(algorithm);
  PoolAllocator allocator{&queue};
  return WithErrorsOfThrust([&] {
    return queue.waits().During(
        [&] { return f(thrust::cuda::par(allocator).on(queue.cuda_stream())); });
  });
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_THRUST_POLICY_CUH_
