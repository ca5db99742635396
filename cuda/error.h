// Errors of CUDA calls inside this folder: a check throws CudaError, and Device::Run()
// (cuda/device/device.h) catches it once. Kernels include this file, so it does without absl.
#ifndef SPARSEAGG_CUDA_ERROR_H_
#define SPARSEAGG_CUDA_ERROR_H_

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace sparseagg::gpu {

class CudaError : public std::runtime_error {
 public:
  // `more` follows the message.
  CudaError(cudaError_t code, const std::string& what, const std::string& more = "")
      : std::runtime_error(what + ": " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) +
                           ")" + more),
        code_(code) {}

  cudaError_t code() const { return code_; }
  // No memory for this call; the device works on. Anything else means that the device, or this
  // process's context on it, can no longer be trusted.
  bool out_of_memory() const { return code_ == cudaErrorMemoryAllocation; }

 private:
  cudaError_t code_;
};

// One tensor is not for this device: a library refuses it. The device works on.
class Refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws when `code` is an error. `what` names the call for the log.
inline void CheckCuda(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears an error that is not sticky, or the next launch would report it
  throw CudaError(code, what);
}

}  // namespace sparseagg::gpu

#endif  // SPARSEAGG_CUDA_ERROR_H_
