// Thrust's exceptions as those of this folder.
#ifndef SPARSEAGG_CUDA_KERNELS_LAUNCH_THRUST_ERRORS_CUH_
#define SPARSEAGG_CUDA_KERNELS_LAUNCH_THRUST_ERRORS_CUH_

#include <cuda_runtime_api.h>
#include <thrust/system/cuda/error.h>
#include <thrust/system_error.h>

#include "cuda/error.h"

namespace sparseagg::gpu {

// f(). Throws CudaError where Thrust says that memory is out: a smaller batch may do.
template <class F>
auto WithErrorsOfThrust(const F& f) {
  try {
    return f();
  } catch (const thrust::system_error& error) {
    if (error.code() != thrust::error_code(cudaErrorMemoryAllocation, thrust::cuda_category())) {
      throw;
    }
    throw CudaError(cudaErrorMemoryAllocation, error.what());
  }
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_KERNELS_LAUNCH_THRUST_ERRORS_CUH_
