#include <cstdint>

#include "cpu/kernels_impl.h"

namespace sparseagg {

template CpuKernels KernelsFor<int32_t>(std::string_view op);
template CpuKernels KernelsFor<int64_t>(std::string_view op);
template CpuKernels KernelsFor<uint32_t>(std::string_view op);
template CpuKernels KernelsFor<uint64_t>(std::string_view op);

}  // namespace sparseagg
