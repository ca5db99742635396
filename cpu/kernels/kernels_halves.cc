#include "cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/kernels_halves.cc"
#include <hwy/foreach_target.h>  // compiles this file again for every instruction set

#include "cpu/kernels/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {

const CpuKernels* FindHalves(ValueType type, std::string_view op) {
  return type == ValueType::kF16 ? TableOf<F16>(op) : TableOf<BF16>(op);
}

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparseagg {

HWY_EXPORT(FindHalves);

const CpuKernels* KernelsOfHalves(ValueType type, std::string_view op) {
  return HWY_DYNAMIC_DISPATCH(FindHalves)(type, op);
}

}  // namespace sparseagg
#endif
