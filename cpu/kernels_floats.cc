#include "cpu/kernels_impl.h"
#include "sparse/values.h"

namespace sparseagg {

template CpuKernels KernelsFor<F16>(std::string_view op);
template CpuKernels KernelsFor<BF16>(std::string_view op);
template CpuKernels KernelsFor<float>(std::string_view op);
template CpuKernels KernelsFor<double>(std::string_view op);

}  // namespace sparseagg
