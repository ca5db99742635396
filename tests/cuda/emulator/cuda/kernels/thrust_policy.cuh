// The tests' version of cuda/kernels/thrust_policy.cuh: Thrust's sequential host system.
#ifndef SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_THRUST_POLICY_CUH_
#define SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_THRUST_POLICY_CUH_

#include <thrust/system/cpp/execution_policy.h>

#include "cuda/raii/queue.h"

namespace sparseagg::gpu {

template <class F>
auto WithThrust(Queue&, const F& f) {
  return f(thrust::cpp::par);
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_THRUST_POLICY_CUH_
