#include "cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/kernels_singles.cc"
#include <hwy/foreach_target.h>  // compiles this file again for every instruction set

#include "cpu/kernels/kernels-inl.h"
#include "cpu/state/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace sparseagg {
namespace HWY_NAMESPACE {

const CpuKernels* FindSingles(ValueType type, std::string_view op) {
  return type == ValueType::kF32 ? TableOf<float>(op) : TableOf<double>(op);
}

const char* TargetNameHere() { return hwy::TargetName(HWY_TARGET); }
size_t VectorBytesHere() { return HWY_MAX_BYTES; }

}  // namespace HWY_NAMESPACE
}  // namespace sparseagg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparseagg {

HWY_EXPORT(FindSingles);

const CpuKernels* KernelsOfSingles(ValueType type, std::string_view op) {
  return HWY_DYNAMIC_DISPATCH(FindSingles)(type, op);
}

HWY_EXPORT(TargetNameHere);
HWY_EXPORT(VectorBytesHere);

const char* InstructionSet() { return HWY_DYNAMIC_DISPATCH(TargetNameHere)(); }
size_t VectorBytes() { return HWY_DYNAMIC_DISPATCH(VectorBytesHere)(); }

}  // namespace sparseagg
#endif
