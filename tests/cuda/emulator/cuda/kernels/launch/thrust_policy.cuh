// The tests' version of cuda/kernels/launch/thrust_policy.cuh: Thrust's sequential host system.
#ifndef SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_THRUST_POLICY_CUH_
#define SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_THRUST_POLICY_CUH_

#include <thrust/system/cpp/execution_policy.h>

#include "cuda/kernels/launch/thrust_errors.cuh"
#include "cuda/raii/queue.h"
#include "tests/cuda/emulator/runtime.h"

namespace sparseagg::gpu {

template <class F>
void QueueThrust(Queue& queue, const char* algorithm, const F& f) {
  queue.Calls(algorithm);
  WithErrorsOfThrust([&] {
    sparseagg::testing::CallLibrary(queue.cuda_stream());
    f(thrust::cpp::par);
  });
}

template <class F>
auto WithThrust(Queue& queue, const char* algorithm, const F& f) {
  queue.Calls(algorithm);
  return WithErrorsOfThrust([&] {
    sparseagg::testing::CallLibrary(queue.cuda_stream());
    auto result = f(thrust::cpp::par);
    queue.Synchronize();
    return result;
  });
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_TESTS_CUDA_EMULATOR_CUDA_KERNELS_LAUNCH_THRUST_POLICY_CUH_
