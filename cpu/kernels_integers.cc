#include <cstdint>

#include "cpu/kernels_impl.h"

namespace sparseagg {

template const CpuKernels* KernelsFor<int32_t>(std::string_view op);
template const CpuKernels* KernelsFor<int64_t>(std::string_view op);
template const CpuKernels* KernelsFor<uint32_t>(std::string_view op);
template const CpuKernels* KernelsFor<uint64_t>(std::string_view op);

}  // namespace sparseagg
