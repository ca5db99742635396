// The tests' version of cuda/kernels/thrust_policy.cuh: Thrust's sequential host system.
#ifndef SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_THRUST_POLICY_CUH_
#define SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_THRUST_POLICY_CUH_

#include <thrust/system/cpp/execution_policy.h>

#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

template <class F>
void QueueThrust(Queue&, const F& f) {
  f(thrust::cpp::par);
}

template <class F>
auto WithThrust(Queue& queue, const F& f) {
  auto result = f(thrust::cpp::par);
  queue.Synchronize();
  return result;
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_THRUST_POLICY_CUH_
