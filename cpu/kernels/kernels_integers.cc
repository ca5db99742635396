// 128-bit additions have no vector form, so these kernels are compiled only for the baseline
// instruction set.
#include "cpu/kernels/kernels-inl.h"
#include "cpu/kernels/kernels.h"

namespace sparseagg {

const CpuKernels* KernelsOfIntegers(ValueType type, std::string_view op) {
  switch (type) {
    case ValueType::kI32:
      return HWY_NAMESPACE::TableOf<int32_t>(op);
    case ValueType::kU32:
      return HWY_NAMESPACE::TableOf<uint32_t>(op);
    case ValueType::kI64:
      return HWY_NAMESPACE::TableOf<int64_t>(op);
    default:
      return HWY_NAMESPACE::TableOf<uint64_t>(op);
  }
}

const CpuKernels* KernelsFor(ValueType type, std::string_view op) {
  switch (type) {
    case ValueType::kF32:
    case ValueType::kF64:
      return KernelsOfSingles(type, op);
    case ValueType::kF16:
    case ValueType::kBF16:
      return KernelsOfHalves(type, op);
    default:
      return KernelsOfIntegers(type, op);
  }
}

}  // namespace sparseagg
