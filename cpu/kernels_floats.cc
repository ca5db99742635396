#include "cpu/kernels_impl.h"
#include "sparse/values.h"

namespace sparseagg {

template const CpuKernels* KernelsFor<F16>(std::string_view op);
template const CpuKernels* KernelsFor<BF16>(std::string_view op);
template const CpuKernels* KernelsFor<float>(std::string_view op);
template const CpuKernels* KernelsFor<double>(std::string_view op);

}  // namespace sparseagg
