// Inputs a, b, weights [n]; output [n]. One thread a case, no shared memory; a launch is bounded by
// n / 128 blocks.
#include <cuda_runtime.h>

#include "tests/cuda/device_numerics.h"

namespace sparseagg::testing {
namespace {

__global__ void NumericsKernel(const double* a, const double* b, const float* weights,
                               NumericsResult* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = ComputeNumerics(a[i], b[i], weights[i]);
}

template <class T>
class DeviceArray {
 public:
  DeviceArray(size_t size, cudaError_t& error) {
    if (error == cudaSuccess) error = cudaMalloc(&data_, size * sizeof(T));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

template <class T>
void Upload(DeviceArray<T>& to, const std::vector<T>& from, cudaError_t& error) {
  if (error == cudaSuccess) {
    error = cudaMemcpy(to.data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
}

}  // namespace

std::vector<NumericsResult> ComputeOnDevice(const std::vector<double>& a,
                                            const std::vector<double>& b,
                                            const std::vector<float>& weights, std::string& error) {
  cudaError_t status = cudaSuccess;
  const int n = static_cast<int>(a.size());
  DeviceArray<double> device_a(a.size(), status);
  DeviceArray<double> device_b(b.size(), status);
  DeviceArray<float> device_weights(weights.size(), status);
  DeviceArray<NumericsResult> device_out(a.size(), status);
  Upload(device_a, a, status);
  Upload(device_b, b, status);
  Upload(device_weights, weights, status);
  std::vector<NumericsResult> out(a.size());
  if (status == cudaSuccess) {
    NumericsKernel<<<(n + 127) / 128, 128>>>(device_a.data(), device_b.data(),
                                             device_weights.data(), device_out.data(), n);
    status = cudaGetLastError();
  }
  if (status == cudaSuccess) {
    status = cudaMemcpy(out.data(), device_out.data(), out.size() * sizeof(NumericsResult),
                        cudaMemcpyDeviceToHost);
  }
  if (status != cudaSuccess) {
    error = cudaGetErrorString(status);
    out.clear();
  }
  return out;
}

}  // namespace sparseagg::testing
